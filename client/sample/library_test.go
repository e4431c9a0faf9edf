package sample

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Every field of the library is done here, refused by name, or means nothing, and the page says
// which.
func TestLibraryFields(t *testing.T) {
	b, err := os.ReadFile("testdata/generation_config.json")
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours []string
	if err := json.Unmarshal(b, &theirs); err != nil {
		t.Fatal(err)
	}
	table := "| field | | |\n|---|---|---|\n"
	for _, f := range LibraryFields {
		ours = append(ours, f.Name)
		table += fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, f.Does, f.How)
	}
	if strings.Join(theirs, "\n") != strings.Join(ours, "\n") {
		t.Errorf("fields of the library:\n%v\nfields here:\n%v", theirs, ours)
	}
	page, err := os.ReadFile("../../docs/howto/generation.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table) {
		t.Errorf("docs/howto/generation.md lacks the table; put this there:\n%s", table)
	}
}

func TestListsInJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"suppress_tokens":[1,2],"forced_eos_token_id":7}`, "[1 2] [7] [] 0 0"},
		{`{"suppress_tokens":null,"exponential_decay_length_penalty":[3,1.5]}`, "[] [] [] 3 1.5"},
		{`{"exponential_decay_length_penalty":null,"sequence_bias":[[[1,2],-0.5],[[3],2]]}`, "[] [] [{[1 2] -0.5} {[3] 2}] 0 0"},
	} {
		var p Params
		err := json.Unmarshal([]byte(c.text), &p)
		if got := fmt.Sprint(p.Suppress, p.ForcedEOS, p.Runs, p.Decay.Start, p.Decay.Factor); err != nil || strings.NewReplacer("<nil>", "[]").Replace(got) != c.want {
			t.Errorf("%s: %s, %v", c.text, got, err)
		}
	}
	for _, text := range []string{
		`{"suppress_tokens":"1"}`, `{"suppress_tokens":[1.5]}`, `{"exponential_decay_length_penalty":[1]}`, `{"exponential_decay_length_penalty":[-1,2]}`,
		`{"exponential_decay_length_penalty":"1,2"}`, `{"sequence_bias":[[1,2]]}`, `{"sequence_bias":{"1":2}}`,
	} {
		var p Params
		if json.Unmarshal([]byte(text), &p) == nil {
			t.Errorf("%s is taken", text)
		}
	}
	var d Decay
	var l IDs
	if d.Set("10,1.05") != nil || d.String() != "10,1.05" || l.Set("1, 2") != nil || l.String() != "1,2" || d.Set("x") == nil || l.Set("1,,2") == nil {
		t.Errorf("%v %v", &d, &l)
	}
}
