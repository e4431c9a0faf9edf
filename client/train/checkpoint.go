package train

import (
	"encoding/json"
	"fmt"
	"slices"
)

// state is what a checkpoint holds beside tensors.
type state struct {
	Version int     `json:"version"`
	Run     Run     `json:"run"`
	Done    int     `json:"steps_done"`
	Power1  float64 `json:"power1"`
	Power2  float64 `json:"power2"`
	Epochs  []Sum   `json:"epochs"`
}

// Run names what is trained on what: a checkpoint goes on with the same run only, since with
// another it would give other bits than either.
type Run struct {
	Model   string  `json:"model"`             // the UID: all weights and the class
	Adapter string  `json:"adapter,omitempty"` // NAME@DIGEST
	Data    string  `json:"data"`              // a hash of the examples, in ids
	Options Options `json:"options"`
}

// Differs says what of a run is not as in another; "" if nothing is.
func (r Run) Differs(o Run) string {
	if r.Model != o.Model {
		return fmt.Sprintf("model %s instead of %s", r.Model, o.Model)
	}
	if r.Adapter != o.Adapter {
		return fmt.Sprintf("the adapter %q instead of %q", r.Adapter, o.Adapter)
	}
	if r.Data != o.Data {
		return "other examples, or another tokenizer or --max-tokens"
	}
	a, _ := json.Marshal(r.Options)
	b, _ := json.Marshal(o.Options)
	if string(a) == string(b) {
		return ""
	}
	var x, y map[string]any
	json.Unmarshal(a, &x)
	json.Unmarshal(b, &y)
	for _, k := range []string{"task", "labels", "prompt_tokens", "deep", "epochs", "learning_rate", "batch", "accumulate", "warmup", "schedule", "weight_decay", "clip", "seed"} {
		if fmt.Sprint(x[k]) != fmt.Sprint(y[k]) {
			return fmt.Sprintf("%s %v instead of %v", k, x[k], y[k])
		}
	}
	return "other options"
}

const checkpointVersion = 2

// Checkpoint is all that a trainer needs to go on, as a safetensors file.
func (t *Trainer) Checkpoint(run Run) []byte {
	text, _ := json.Marshal(state{checkpointVersion, run, t.done, t.adam.Power1, t.adam.Power2, t.epochs})
	names, values := t.tables.parameters()
	tensors := map[string]Tensor{}
	at := 0
	for i, v := range values {
		tensors[names[i]] = Tensor{[]int{len(v)}, v}
		if t.adam.M != nil {
			tensors["m."+names[i]] = Tensor{[]int{len(v)}, t.adam.M[at : at+len(v)]}
			tensors["v."+names[i]] = Tensor{[]int{len(v)}, t.adam.V[at : at+len(v)]}
		}
		at += len(v)
	}
	return EncodeTensors(tensors, map[string]string{"whorl": string(text)})
}

// Resume sets a trainer to where a checkpoint was made. An error says why it cannot be, and leaves
// the trainer as it was.
func (t *Trainer) Resume(b []byte, run Run) error {
	tensors, texts, err := DecodeTensors(b)
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal([]byte(texts["whorl"]), &s); err != nil {
		return fmt.Errorf("%w: no state of a training: %v", ErrTensors, err)
	}
	if s.Version != checkpointVersion {
		return fmt.Errorf("a checkpoint of version %d, this program writes %d", s.Version, checkpointVersion)
	}
	if why := run.Differs(s.Run); why != "" {
		return fmt.Errorf("the checkpoint belongs to another run: this one has %s", why)
	}
	if s.Done < 0 || s.Done > t.Steps() || !(s.Power1 > 0 && s.Power1 <= 1) || !(s.Power2 > 0 && s.Power2 <= 1) || len(s.Epochs) != (s.Done+t.PerEpoch()-1)/t.PerEpoch() {
		return fmt.Errorf("%w: a state of %d steps", ErrTensors, s.Done)
	}
	names, values := t.tables.parameters()
	var m, v []float32
	for i, name := range names {
		for _, part := range []string{"", "m.", "v."} {
			if part != "" && s.Done == 0 {
				continue
			}
			got := tensors[part+name].Values
			if len(got) != len(values[i]) {
				return fmt.Errorf("%w: table %s%s of %d values, want %d", ErrTensors, part, name, len(got), len(values[i]))
			}
			switch part {
			case "m.":
				m = append(m, got...)
			case "v.":
				v = append(v, got...)
			}
		}
	}
	for i, name := range names {
		copy(values[i], tensors[name].Values)
	}
	t.done, t.adam.Steps, t.adam.Power1, t.adam.Power2 = s.Done, s.Done, s.Power1, s.Power2
	t.epochs = s.Epochs
	t.adam.M, t.adam.V = slices.Clone(m), slices.Clone(v)
	return nil
}
