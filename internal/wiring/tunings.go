package wiring

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"whorl/api"
	"whorl/client"
	"whorl/client/train"
	"whorl/swarm"
)

// readTunings reads the folders of a node's --prompt-tuning, each as DIR or as MODEL=DIR.
func readTunings(texts []string, aliases map[string]string) ([]*Tuning, error) {
	seen := map[string]bool{}
	var out []*Tuning
	for _, text := range texts {
		model, dir, named := strings.Cut(text, "=")
		if !named {
			model, dir = "", text
		}
		if named && (model == "" || dir == "") {
			return nil, Usagef("--prompt-tuning %s: want DIR or MODEL=DIR", text)
		}
		t, err := readTuning(dir)
		if err != nil {
			return nil, err
		}
		if t.model = model; aliases[model] != "" {
			t.model = aliases[model]
		}
		whose := t.model
		if whose == "" {
			whose = t.base // two folders of two models may have one name
		}
		if seen[whose+":"+t.Name] || strings.ContainsAny(t.Name, ":@") {
			return nil, Usagef("--prompt-tuning %s: users ask for MODEL:%s, so names of folders must differ and hold no : or @", text, t.Name)
		}
		seen[whose+":"+t.Name] = true
		out = append(out, t)
	}
	return out, nil
}

// of tells whether prompts are used with a model: the one that the operator names, else the one
// that they were trained on, by its UID or by its name, since training without a swarm or by the PEFT library
// knows no UID of a swarm.
func (t *Tuning) of(name string, uid swarm.UID) bool {
	if t.model != "" {
		return t.model == name
	}
	return t.uid == string(uid) || t.base == name
}

// checkTunings refuses prompts of which a node of several models would not know whose they are. models, if
// not nil, are all that there will be.
func checkTunings(list []*Tuning, models []*Model) error {
	for _, t := range list {
		if t.model == "" && t.base == "" {
			return Usagef("--prompt-tuning %s: its files do not say which model it was trained on: give MODEL=DIR", t.Name)
		}
		if models == nil || t.model == "" {
			continue
		}
		var names []string
		at := slices.IndexFunc(models, func(m *Model) bool { names = append(names, m.Name); return m.Name == t.model })
		if at < 0 {
			return Usagef("--prompt-tuning %s=...: the models here are %q", t.model, names)
		}
		if err := t.fits(models[at].Checkpoint.Config.Hidden, models[at].Checkpoint.Config.Layers); err != nil {
			return err
		}
	}
	return nil
}

// tuned is a model with prompts, which must fit it; e is the engine as users see it.
func (n *Node) tuned(e api.Engine, engine *client.Engine, m *Model, t *Tuning) (api.Engine, error) {
	if t.Adapter != "" {
		e = api.Through(e, t.Adapter)
	}
	if len(t.Labels) == 0 {
		p, err := t.prompts()
		if err != nil {
			return nil, err
		}
		return api.Tuned(e, t.Name, p), nil
	}
	remote, err := engine.Remote(swarm.Span{Start: 0, End: engine.Model().Manifest.Blocks}, client.RemoteOptions{Adapter: t.Adapter})
	if err != nil {
		return nil, err
	}
	return api.Labelling(e, t.Name, t.Tables.Tokens, t.Labels, func(ctx context.Context, texts [][]int32) ([][]float64, error) {
		return t.Tables.Classify(ctx, m.Head, train.Remote(remote), texts)
	}), nil
}

// addTunings offers a model with each of its prompts, as MODEL:NAME. alone says that the node has this model and no
// other, so that all are for it.
func (n *Node) addTunings(e *client.Engine, m *Model, list []*Tuning, alone bool) error {
	var all []api.Engine
	for _, t := range list {
		if alone && t.model != "" && t.model != m.Name {
			return Usagef("--prompt-tuning %s=...: the model here is %s", t.model, m.Name)
		}
		if !alone && !t.of(m.Name, e.Model().UID) {
			continue
		}
		if err := t.fits(m.Checkpoint.Config.Hidden, m.Checkpoint.Config.Layers); err != nil {
			if alone {
				return err
			}
			slog.Warn("prompts are not offered", "model", m.Name, "reason", err) // the other models do without
			continue
		}
		if text := t.Other(e.Model().UID); text != "" {
			slog.Warn(text)
		}
		x, err := n.tuned(api.Serve(e), e, m, t)
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tunings = append(n.tunings, all...)
	return nil
}

// unused warns of prompts that none of a node's models uses.
func (n *Node) unused(list []*Tuning) {
	_, engines := n.parts()
	for _, t := range list {
		if !slices.ContainsFunc(engines, func(e *client.Engine) bool { m := e.Model(); return t.of(m.Name, m.UID) }) {
			slog.Warn("prompts are not offered", "prompts", t.Name, "reason", "they were trained on another model than those here: MODEL=DIR uses them with one all the same", "model", t.base)
		}
	}
}

// shelvedTuning is a model of the shelf with prompts. It is awake when the model is.
type shelvedTuning struct {
	api.Engine // how it is listed
	x          *shelved
	t          *Tuning
}

// Base is the model without prompts.
func (s shelvedTuning) Base() api.Engine { return s.x }

// Wake brings the model into memory, as of one without prompts.
func (s shelvedTuning) Wake(ctx context.Context) (api.Engine, func(), error) {
	e, done, err := s.x.Wake(ctx)
	if err != nil {
		return nil, nil, err
	}
	shelf := s.x.shelf
	shelf.mu.Lock()
	engine, model := s.x.engine, s.x.model
	shelf.mu.Unlock()
	out, err := shelf.n.tuned(e, engine, model, s.t)
	if err != nil {
		done()
		return nil, nil, err
	}
	return out, done, nil
}

// first tells whether prompts meet a model for the first time.
func (s *shelf) first(t *Tuning, uid swarm.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met[t] == uid {
		return false
	}
	s.met[t] = uid
	return true
}

// tuned lists a model of the shelf with each of its prompts.
func (s *shelf) tuned(x *shelved, name string) (out []api.Engine) {
	for _, t := range s.hf.tuned {
		uid := x.man.UID()
		if !t.of(name, uid) {
			continue
		}
		err := t.fits(x.man.Hidden, x.man.Blocks)
		if text := t.Other(uid); s.first(t, uid) {
			if err != nil {
				slog.Warn("prompts are not offered", "model", name, "reason", err)
			} else if text != "" {
				slog.Warn(text)
			}
		}
		if err != nil {
			continue
		}
		e := shelvedTuning{x: x, t: t}
		if len(t.Labels) > 0 {
			e.Engine = api.Labelling(x, t.Name, t.Tables.Tokens, t.Labels, nil)
		} else if p, err := t.prompts(); err == nil {
			e.Engine = api.Tuned(x, t.Name, p)
		} else {
			continue
		}
		out = append(out, e)
	}
	return out
}
