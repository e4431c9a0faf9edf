package wiring

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"whorl/api"
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
}

// OpenTuning reads a folder of trained prompts (whorl tune, or the PEFT library's prompt tuning).
func OpenTuning(dir string, m *Model) (*Tuning, error) {
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
	t, labels, uid, err := train.Open(files, m.Checkpoint.Config.Hidden, m.Checkpoint.Config.Layers)
	if err != nil {
		return nil, Usagef("--prompt-tuning %s: %w", dir, err)
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, Usagef("--prompt-tuning %s: %w", dir, err)
	}
	return &Tuning{filepath.Base(whole), t, labels, uid}, nil
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

// labelling is a model that tells labels.
func (n *Node) labelling(e *client.Engine, m *Model, t *Tuning) (api.Engine, error) {
	remote, err := e.Remote(swarm.Span{Start: 0, End: e.Model().Manifest.Blocks}, client.RemoteOptions{})
	if err != nil {
		return nil, err
	}
	return api.Labelling(api.Serve(e), t.Name, t.Tables.Tokens, t.Labels, func(ctx context.Context, texts [][]int32) ([][]float64, error) {
		return t.Tables.Classify(ctx, m.Head, train.Remote(remote), texts)
	}), nil
}

// addTunings offers a model with each of the prompts that the operator names, as MODEL:NAME.
func (n *Node) addTunings(e *client.Engine, m *Model, dirs []string) error {
	seen := map[string]bool{}
	var all []api.Engine
	for _, dir := range dirs {
		t, err := OpenTuning(dir, m)
		if err != nil {
			return err
		}
		if seen[t.Name] || strings.ContainsAny(t.Name, ":@") {
			return Usagef("--prompt-tuning %s: users ask for MODEL:%s, so names of folders must differ and hold no : or @", dir, t.Name)
		}
		seen[t.Name] = true
		if text := t.Other(e.Model().UID); text != "" {
			slog.Warn(text)
		}
		if len(t.Labels) > 0 {
			x, err := n.labelling(e, m, t)
			if err != nil {
				return err
			}
			all = append(all, x)
			continue
		}
		p, err := t.prompts()
		if err != nil {
			return err
		}
		all = append(all, api.Tuned(api.Serve(e), t.Name, p))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tunings = append(n.tunings, all...)
	return nil
}
