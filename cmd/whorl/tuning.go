package main

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

// tuningOf is what was trained for a model.
type tuningOf struct {
	name   string // of the folder
	tables *train.Tables
	labels []string // of a classifier; nil for none
	uid    string   // of the model it was trained on; "" if it does not say
}

// openTuning reads a folder of trained prompts (whorl tune, or the PEFT library's prompt tuning).
func openTuning(dir string, m *openModel) (*tuningOf, error) {
	files := map[string][]byte{}
	for _, name := range []string{train.FileConfig, train.FileTensors} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, usagef("--prompt-tuning: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxTuningFile+1))
		f.Close()
		if err == nil && len(b) > maxTuningFile {
			err = fmt.Errorf("more than %d bytes", maxTuningFile)
		}
		if err != nil {
			return nil, usagef("--prompt-tuning %s: %w", filepath.Join(dir, name), err)
		}
		files[name] = b
	}
	t, labels, uid, err := train.Open(files, m.ck.Config.Hidden, m.ck.Config.Layers)
	if err != nil {
		return nil, usagef("--prompt-tuning %s: %w", dir, err)
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, usagef("--prompt-tuning %s: %w", dir, err)
	}
	return &tuningOf{filepath.Base(whole), t, labels, uid}, nil
}

// prompts are the rows that sessions begin with.
func (t *tuningOf) prompts() (*client.Prompts, error) {
	if len(t.tables.Score) > 0 {
		return nil, usagef("--prompt-tuning %s tells labels of texts and writes none: use `whorl classify`", t.name)
	}
	p := &client.Prompts{Tokens: t.tables.Tokens, Shallow: t.tables.Shallow}
	if t.tables.Blocks > 0 {
		p.Deep = t.tables.Deep
	}
	return p, nil
}

// other is a warning about prompts that were trained on another model, "" if they were not.
func (t *tuningOf) other(uid swarm.UID) string {
	if t.uid == "" || t.uid == string(uid) {
		return ""
	}
	return fmt.Sprintf("the prompts %s were trained on a model with UID %.16s and are used with %.16s: its weights, their format or its class differ, and so may what comes of it", t.name, t.uid, uid)
}

// labelling is a model that tells labels.
func (n *node) labelling(e *client.Engine, m *openModel, t *tuningOf) (api.Engine, error) {
	remote, err := e.Remote(swarm.Span{Start: 0, End: e.Model().Manifest.Blocks}, client.RemoteOptions{})
	if err != nil {
		return nil, err
	}
	return api.Labelling(api.Serve(e), t.name, t.tables.Tokens, t.labels, func(ctx context.Context, texts [][]int32) ([][]float64, error) {
		return t.tables.Classify(ctx, m.head, train.Remote(remote), texts)
	}), nil
}

// addTunings offers a model with each of the prompts that the operator names, as MODEL:NAME.
func (n *node) addTunings(e *client.Engine, m *openModel, dirs []string) error {
	seen := map[string]bool{}
	var all []api.Engine
	for _, dir := range dirs {
		t, err := openTuning(dir, m)
		if err != nil {
			return err
		}
		if seen[t.name] || strings.ContainsAny(t.name, ":@") {
			return usagef("--prompt-tuning %s: users ask for MODEL:%s, so names of folders must differ and hold no : or @", dir, t.name)
		}
		seen[t.name] = true
		if text := t.other(e.Model().UID); text != "" {
			slog.Warn(text)
		}
		if len(t.labels) > 0 {
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
		all = append(all, api.Tuned(api.Serve(e), t.name, p))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tunings = append(n.tunings, all...)
	return nil
}
