package wiring

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"whorl/client"
	"whorl/client/train"
	"whorl/swarm"
)

// maxTuningFile bounds a file of trained prompts, in bytes.
const maxTuningFile = 1 << 30

// Tuning is what was trained for a model.
type Tuning struct {
	Name   string // of the folder
	Tables *train.Tables
	Labels []string // of a classifier; nil for none
	uid    string   // of the model it was trained on; "" if it does not say
	base   string   // that model's name, likewise
	model  string   // that it is used with, as the operator says; "" if nobody does
	// Adapter is the LoRA adapter, NAME@DIGEST, with which it was trained; "" for none.
	Adapter string
}

// OpenTuning reads a folder of trained prompts for a model.
func OpenTuning(dir string, m *Model) (*Tuning, error) {
	t, err := readTuning(dir)
	if err == nil {
		err = t.fits(m.Checkpoint.Config.Hidden, m.Checkpoint.Config.Layers)
	}
	return t, err
}

// fits refuses prompts of another model.
func (t *Tuning) fits(hidden, blocks int) error {
	if err := t.Tables.Fits(hidden, blocks); err != nil {
		return Usagef("--prompt-tuning %s: %w", t.Name, err)
	}
	return nil
}

// readTuning reads a folder of trained prompts (whorl tune, or the PEFT library's prompt tuning).
func readTuning(dir string) (*Tuning, error) {
	files := map[string][]byte{}
	for _, name := range []string{train.FileConfig, train.FileTensors} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, Usagef("--prompt-tuning: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxTuningFile+1))
		f.Close()
		if err == nil && len(b) > maxTuningFile {
			err = fmt.Errorf("more than %d bytes", maxTuningFile)
		}
		if err != nil {
			return nil, Usagef("--prompt-tuning %s: %w", filepath.Join(dir, name), err)
		}
		files[name] = b
	}
	t, about, err := train.Open(files)
	if err != nil {
		return nil, Usagef("--prompt-tuning %s: %w", dir, err)
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, Usagef("--prompt-tuning %s: %w", dir, err)
	}
	return &Tuning{Name: filepath.Base(whole), Tables: t, Labels: about.Labels, uid: about.UID, base: about.Model, Adapter: about.Adapter}, nil
}

// prompts are the rows that sessions begin with.
func (t *Tuning) prompts() (*client.Prompts, error) {
	if len(t.Tables.Score) > 0 {
		return nil, Usagef("--prompt-tuning %s tells labels of texts and writes none: use `whorl classify`", t.Name)
	}
	p := &client.Prompts{Tokens: t.Tables.Tokens, Shallow: t.Tables.Shallow}
	if t.Tables.Blocks > 0 {
		p.Deep = t.Tables.Deep
	}
	return p, nil
}

// Other is a warning about prompts that were trained on another model, "" if they were not.
func (t *Tuning) Other(uid swarm.UID) string {
	if t.uid == "" || t.uid == string(uid) {
		return ""
	}
	return fmt.Sprintf("the prompts %s were trained on a model with UID %.16s and are used with %.16s: its weights, their format or its class differ, and so may what comes of it", t.Name, t.uid, uid)
}
