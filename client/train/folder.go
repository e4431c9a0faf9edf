package train

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// The files of trained tables, in the layout of the PEFT library's prompt tuning: shallow prompts
// and a classifier are what that library reads. Deep prompts are beside them, under a name of
// ours: PEFT has nothing that is added in front of every block.
const (
	FileConfig  = "adapter_config.json"
	FileTensors = "adapter_model.safetensors"
	FileCard    = "README.md"

	tensorShallow = "prompt_embeddings"
	tensorScore   = "base_model.score.weight"
	tensorDeep    = "whorl.deep_prompts"
)

// About is what the files say of a model and a training.
type About struct {
	Model   string // as users name it
	UID     string
	Adapter string // NAME@DIGEST of the LoRA adapter that blocks had; "" for none
	Hidden  int
	Blocks  int
	Heads   int
	Labels  []string // of a classifier
	License string
}

// peftConfig has the members that PEFT writes for prompt tuning, and one of ours.
type peftConfig struct {
	PeftType    string  `json:"peft_type"`
	TaskType    string  `json:"task_type"`
	Base        string  `json:"base_model_name_or_path"`
	Revision    *string `json:"revision"`
	Inference   bool    `json:"inference_mode"`
	Tokens      int     `json:"num_virtual_tokens"`
	Dim         int     `json:"token_dim"`
	Submodules  int     `json:"num_transformer_submodules"`
	Heads       int     `json:"num_attention_heads"`
	Layers      int     `json:"num_layers"`
	Init        string  `json:"prompt_tuning_init"`
	InitText    *string `json:"prompt_tuning_init_text"`
	Tokenizer   *string `json:"tokenizer_name_or_path"`
	AutoMapping *string `json:"auto_mapping"`
}

// Files are the files of a folder of trained tables, but for the card.
func (t *Tables) Files(a About) map[string][]byte {
	task := "CAUSAL_LM"
	tensors := map[string]Tensor{tensorShallow: {[]int{t.Tokens, t.Hidden}, t.Shallow}}
	if len(t.Score) > 0 {
		task = "SEQ_CLS"
		tensors[tensorScore] = Tensor{[]int{len(a.Labels), t.Hidden}, t.Score}
	}
	if t.Blocks > 0 {
		tensors[tensorDeep] = Tensor{[]int{t.Blocks, t.Tokens, t.Hidden}, t.Deep}
	}
	config, _ := json.MarshalIndent(peftConfig{
		PeftType: "PROMPT_TUNING", TaskType: task, Base: a.Model, Inference: true, Tokens: t.Tokens, Dim: t.Hidden, Submodules: 1, Heads: a.Heads, Layers: a.Blocks, Init: "RANDOM",
	}, "", "  ")
	texts := map[string]string{"format": "pt", "whorl.model": a.UID}
	if a.Adapter != "" {
		texts["whorl.adapter"] = a.Adapter
	}
	if len(a.Labels) > 0 {
		labels, _ := json.Marshal(a.Labels)
		texts["whorl.labels"] = string(labels)
	}
	return map[string][]byte{FileConfig: append(config, '\n'), FileTensors: EncodeTensors(tensors, texts)}
}

// Open reads such a folder: what this program wrote, or PEFT's prompt tuning. Of the model that the
// tables were trained on it says what the files say: name, UID and labels, or nothing.
func Open(files map[string][]byte) (*Tables, About, error) {
	fail := func(format string, a ...any) (*Tables, About, error) { return nil, About{}, fmt.Errorf(format, a...) }
	var c peftConfig
	if err := json.Unmarshal(files[FileConfig], &c); err != nil {
		return fail("%s: %w", FileConfig, err)
	}
	if c.PeftType != "PROMPT_TUNING" {
		return fail("%s: peft_type is %.40q: want PROMPT_TUNING", FileConfig, c.PeftType)
	}
	tensors, texts, err := DecodeTensors(files[FileTensors])
	if err != nil {
		return fail("%s: %w", FileTensors, err)
	}
	shape := func(name string, want ...int) error {
		got := tensors[name]
		if fmt.Sprint(got.Shape) != fmt.Sprint(want) {
			return fmt.Errorf("%s: tensor %s has shape %v, want %v", FileTensors, name, got.Shape, want)
		}
		return nil
	}
	if c.Tokens < 1 || c.Tokens > 1024 {
		return fail("%s: %d virtual tokens, want 1 to 1024", FileConfig, c.Tokens)
	}
	hidden := c.Dim
	if err := shape(tensorShallow, c.Tokens, hidden); err != nil {
		return fail("%w", err)
	}
	t := &Tables{Tokens: c.Tokens, Hidden: hidden, Shallow: tensors[tensorShallow].Values}
	if deep, ok := tensors[tensorDeep]; ok {
		blocks := 0
		if len(deep.Shape) > 0 {
			blocks = deep.Shape[0]
		}
		if err := shape(tensorDeep, blocks, c.Tokens, hidden); err != nil {
			return fail("%w", err)
		}
		t.Blocks, t.Deep = blocks, deep.Values
	}
	var labels []string
	if text := texts["whorl.labels"]; text != "" {
		if err := json.Unmarshal([]byte(text), &labels); err != nil || len(labels) > MaxLabels {
			return fail("%s: its labels cannot be read", FileTensors)
		}
	}
	if s, ok := tensors[tensorScore]; ok {
		if len(s.Shape) == 2 && len(labels) == 0 && s.Shape[0] > 1 && s.Shape[0] <= MaxLabels {
			for i := range s.Shape[0] {
				labels = append(labels, fmt.Sprint(i))
			}
		}
		if err := shape(tensorScore, len(labels), hidden); err != nil {
			return fail("%w", err)
		}
		t.Score = s.Values
	} else if len(labels) > 0 {
		return fail("%s: labels without a classifier (%s)", FileTensors, tensorScore)
	}
	return t, About{Model: c.Base, UID: texts["whorl.model"], Adapter: texts["whorl.adapter"], Labels: labels}, nil
}

// Fits says why tables cannot be of a model with so many columns and blocks.
func (t *Tables) Fits(hidden, blocks int) error {
	switch {
	case t.Hidden != hidden:
		return fmt.Errorf("its prompts have %d columns and the model %d: they are of another model", t.Hidden, hidden)
	case t.Blocks != 0 && t.Blocks != blocks:
		return fmt.Errorf("it has prompts for %d blocks and the model %d: they are of another model", t.Blocks, blocks)
	}
	return nil
}

// Card is a page about trained tables.
type Card struct {
	About
	Options
	Data     string // the file's name
	Examples int
	Steps    int
	Hash     string
	Train    Sum  // of the last epoch
	Eval     *Sum // nil: nothing was held out
}

// Text is the page, in the layout of a model hub.
func (c *Card) Text() []byte {
	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format, a...) }
	name := cell(c.Model)
	p("---\nbase_model: %s\nlibrary_name: peft\ntags:\n- prompt-tuning\n- whorl\n---\n\n", name)
	p("# Prompts for %s\n\n", name)
	kind := "shallow"
	if c.Deep {
		kind = "deep"
	}
	p("%d %s prompt tokens, trained with `whorl tune` on frozen weights.\n\n", c.Tokens, kind)
	p("| | |\n|---|---|\n| task | %s |\n| model | `%s` |\n| data | `%s`, %d examples |\n| epochs | %d (%d steps of %d examples) |\n| learning rate | %v, %s, %d steps of warm-up |\n| weight decay, clip | %v, %v |\n| seed | %d |\n| tables | `%s` |\n",
		c.Task, c.UID, cell(c.Data), c.Examples, c.Epochs, c.Steps, c.Batch*c.Accumulate, c.Rate, c.Schedule, c.Warmup, c.Decay, c.Clip, c.Seed, c.Hash)
	if c.Adapter != "" {
		p("| adapter | `%s` |\n", cell(c.Adapter))
	}
	if len(c.About.Labels) > 0 {
		p("| labels | %s |\n", cell(strings.Join(c.About.Labels, ", ")))
	}
	p("| loss of the last epoch | %.4f |\n", c.Train.Mean())
	if c.Eval != nil {
		p("| held out: loss, accuracy | %.4f, %.4f (%d examples) |\n", c.Eval.Mean(), c.Eval.Accuracy(), c.Eval.Examples)
	}
	p("\nThe same data, options, seed and model (by its UID) give the same tables to the last bit, on any number of servers.\n")
	if c.Deep {
		p("\nDeep prompts are in the tensor `%s`, [blocks][tokens][hidden]: they are added to the first rows in front of each block. The PEFT library reads the shallow ones alone.\n", tensorDeep)
	}
	return []byte(b.String())
}

// cell is a text of users' as one line of a page, which ends no row and begins no heading of it.
func cell(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '|' || r == '`':
			return '\''
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, text)
}
