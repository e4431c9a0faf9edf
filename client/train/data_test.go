package train

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestCrossEntropy(t *testing.T) {
	logits := []float32{1, 3, -2, 3}
	sum := math.Exp(-2) + 1 + math.Exp(-5) + 1
	g := slices.Clone(logits)
	loss, best := CrossEntropy(g, 1, make([]float64, 4))
	if want := math.Log(sum); math.Abs(loss-want) > 1e-12 || !best {
		t.Errorf("loss %v, want %v", loss, want)
	}
	for i, v := range logits {
		want := math.Exp(float64(v)-3) / sum
		if i == 1 {
			want--
		}
		if math.Abs(float64(g[i])-want) > 1e-7 {
			t.Errorf("gradient %d is %v, want %v", i, g[i], want)
		}
	}
	if _, best := CrossEntropy(slices.Clone(logits), 3, make([]float64, 4)); best {
		t.Error("the second of equals is best")
	}
}

func TestRead(t *testing.T) {
	for in, want := range map[string]string{
		`{"text":"a","label":"x"}` + "\n\n" + `{"text":"b","label":2}`: "",
		``:             "no examples",
		`{"text":"a"}`: `line 1: want {"text"`,
		`{"text":"a","label":"x"}` + "\n" + `nonsense`: "line 2",
		`{"text":"a","label":[1]}`:                     "a label is",
		`{"text":"a","label":1} {"text":"b"}`:          "line 1",
	} {
		if _, err := Read(strings.NewReader(in), Classify); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	for in, want := range map[string]string{
		`{"text":"a"}`: "", `{"prompt":"a","completion":"b"}`: "", `{"completion":"b"}`: "",
		`{"prompt":"a"}`: "want", `{"text":"a","completion":"b"}`: "want", `{"text":"a","prompt":"b"}`: "goes with",
	} {
		if _, err := Read(strings.NewReader(in), Causal); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	lines, err := Read(strings.NewReader(`{"text":"","label":10}`+"\n"+`{"text":"","label":9}`+"\n"+`{"text":"","label":"10"}`), Classify)
	if err != nil {
		t.Fatal(err)
	}
	if labels, err := Labels(lines); err != nil || fmt.Sprint(labels) != "[9 10]" {
		t.Errorf("labels %v, %v", labels, err)
	}
}

// A folder comes back as it was; one of another model is refused.
func TestFolder(t *testing.T) {
	tables := trainer(t, options(Classify, true), nil).Tables()
	about := About{Model: "some/model", UID: "uid", Adapter: "poems@0123", Hidden: fakeHidden, Blocks: fakeBlocks, Heads: 1, Labels: []string{"no", "yes"}}
	files := tables.Files(about)
	got, of, err := Open(files)
	if err != nil || got.Hash() != tables.Hash() || fmt.Sprint(of.Labels) != "[no yes]" || of.UID != "uid" || of.Adapter != "poems@0123" || of.Model != "some/model" {
		t.Errorf("%v, %+v, %v", got, of, err)
	}
	for _, size := range [][2]int{{fakeHidden + 1, fakeBlocks}, {fakeHidden, fakeBlocks + 1}} {
		if err := got.Fits(size[0], size[1]); err == nil || !strings.Contains(err.Error(), "another model") {
			t.Errorf("%v: %v", size, err)
		}
	}
	if err := got.Fits(fakeHidden, fakeBlocks); err != nil {
		t.Error(err)
	}
	for says, spoil := range map[string]func(t map[string]Tensor, texts map[string]string){
		"prompt_embeddings has shape":  func(t map[string]Tensor, _ map[string]string) { delete(t, tensorShallow) },
		"whorl.deep_prompts has shape": func(t map[string]Tensor, _ map[string]string) { t[tensorDeep] = Tensor{nil, []float32{1}} },
		"base_model.score.weight has":  func(_ map[string]Tensor, texts map[string]string) { texts["whorl.labels"] = `["a"]` },
		"labels without a classifier":  func(t map[string]Tensor, _ map[string]string) { delete(t, tensorScore) },
		"its labels cannot be read":    func(_ map[string]Tensor, texts map[string]string) { texts["whorl.labels"] = `{` },
	} {
		tensors, texts, err := DecodeTensors(files[FileTensors])
		if err != nil {
			t.Fatal(err)
		}
		spoil(tensors, texts)
		if _, _, err := Open(map[string][]byte{FileConfig: files[FileConfig], FileTensors: EncodeTensors(tensors, texts)}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if _, _, err := Open(map[string][]byte{FileConfig: []byte(`{"peft_type":"LORA"}`)}); err == nil || !strings.Contains(err.Error(), "LORA") {
		t.Error(err)
	}
	card := Card{About: about, Options: options(Classify, true), Data: "x.jsonl", Eval: &Sum{Examples: 4, Right: 3, Count: 4, Loss: 1}}
	if text := string(card.Text()); !strings.Contains(text, "0.2500, 0.7500") || !strings.Contains(text, "deep") || !strings.Contains(text, "poems@0123") {
		t.Error(text)
	}
	card.Data, card.About.Labels = "x|\n# y`", []string{"a\n\n# b", "c"}
	if text := string(card.Text()); strings.Contains(text, "\n# y") || strings.Contains(text, "\n# b") || strings.Contains(text, "x|") {
		t.Error(text)
	}
}

func FuzzDecodeTensors(f *testing.F) {
	f.Add(EncodeTensors(map[string]Tensor{"a": {[]int{2, 1}, []float32{1, 2}}, "b": {nil, []float32{3}}}, map[string]string{"x": "y"}))
	f.Add([]byte("\x08\x00\x00\x00\x00\x00\x00\x00{\"a\":{} "))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, texts, err := DecodeTensors(b)
		if err != nil {
			if !errors.Is(err, ErrTensors) {
				t.Error(err)
			}
			return
		}
		n := 0
		for _, x := range tensors {
			n += len(x.Values)
		}
		if n > len(b)*len(tensors) {
			t.Errorf("%d values of %d bytes", n, len(b))
		}
		again, _, err := DecodeTensors(EncodeTensors(tensors, texts))
		if err != nil || len(again) != len(tensors) {
			t.Errorf("%v", err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"text":"a","label":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, task := range []Task{Causal, Classify} {
			if lines, err := Read(bytes.NewReader(b), task); err == nil && task == Classify {
				Labels(lines)
			}
		}
	})
}
