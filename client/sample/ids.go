package sample

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// IDs are token ids; in JSON a list, or one number.
type IDs []int32

// UnmarshalJSON reads a list, a number, or null for none.
func (l *IDs) UnmarshalJSON(b []byte) error {
	var one int32
	if err := json.Unmarshal(b, &one); err == nil && string(b) != "null" {
		*l = IDs{one}
		return nil
	}
	var all []int32
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("%.40s: want a list of token ids, such as [1, 2]", b)
	}
	*l = all
	return nil
}

// Set reads "1,2", for flags.
func (l *IDs) Set(text string) error {
	var out IDs
	for part := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil {
			return fmt.Errorf("%q: want token ids, such as 1,2", part)
		}
		out = append(out, int32(id))
	}
	*l = out
	return nil
}

func (l *IDs) String() string {
	var parts []string
	for _, id := range *l {
		parts = append(parts, strconv.Itoa(int(id)))
	}
	return strings.Join(parts, ",")
}

// Type names the value in help texts.
func (l *IDs) Type() string { return "IDS" }

// RunBias changes the logit of the last id of a run where the ids before it have just been said:
// in JSON [[ids], value], an item of transformers' sequence_bias.
type RunBias struct {
	IDs   []int32
	Value float64
}

// MarshalJSON writes the pair.
func (r RunBias) MarshalJSON() ([]byte, error) { return json.Marshal([]any{r.IDs, r.Value}) }

// UnmarshalJSON reads the pair.
func (r *RunBias) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 || json.Unmarshal(pair[0], &r.IDs) != nil || json.Unmarshal(pair[1], &r.Value) != nil {
		return fmt.Errorf("%.40s: want [[ids], bias], such as [[5, 7], -2.5]", b)
	}
	return nil
}

// RunBiases are all of a request.
type RunBiases []RunBias

// UnmarshalJSON reads a list of pairs.
func (l *RunBiases) UnmarshalJSON(b []byte) error {
	var all []RunBias
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*l = all
	return nil
}

// ordered puts runs of one id first, and then together what has the same length, in the order in
// which the lengths come: transformers sums in that order.
func (l RunBiases) ordered() RunBiases {
	var lengths []int
	for _, r := range l {
		if !slices.Contains(lengths, len(r.IDs)) {
			lengths = append(lengths, len(r.IDs))
		}
	}
	rank := func(r RunBias) int {
		if len(r.IDs) == 1 {
			return -1
		}
		return slices.Index(lengths, len(r.IDs))
	}
	out := slices.Clone(l)
	slices.SortStableFunc(out, func(a, b RunBias) int { return rank(a) - rank(b) })
	return out
}

// add changes logits behind a history; sums is scratch.
func (l RunBiases) add(logits []float32, history []int32, sums map[int32]float32) {
	clear(sums)
	for _, r := range l {
		n := len(r.IDs) - 1
		if !endsWith(history, r.IDs[:n]) {
			continue
		}
		if last := r.IDs[n]; last >= 0 && int(last) < len(logits) {
			sums[last] += float32(r.Value)
		}
	}
	for id, by := range sums {
		logits[id] += by
	}
}
