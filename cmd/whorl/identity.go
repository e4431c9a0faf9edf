package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"whorl/content"
	"whorl/model"
	"whorl/model/tokenizer"
	"whorl/model/weights"
	"whorl/swarm"
	"whorl/swarm/balance"
	"whorl/swarm/dir"
	"whorl/tensor"
)

// describe makes the manifest that the model's files and flags give, but for the names of
// its weights.
func (m *openModel) describe() error {
	class, err := m.ck.Class(m.load)
	if err != nil {
		return usage(err)
	}
	tok, err := m.tokenizerHash()
	if err != nil {
		return usage(err)
	}
	m.man = swarm.Manifest{
		Name: m.name, Blocks: m.ck.Config.Layers, Hidden: m.ck.Config.Hidden, Tokenizer: tok,
		Class: swarm.Class{
			ConfigHash: m.ck.Config.Hash(), DType: class.DType, Quant: class.Quant,
			KVDType: m.kv.String(), Arithmetic: m.dev.Info().Arithmetic,
		},
	}
	return usage(m.man.Validate())
}

func (m *openModel) tokenizerHash() (content.Hash, error) {
	if m.ck.Source == weights.GGUF {
		return tokenizer.HashGGUF(m.ck.Metadata().Encode("tokenizer.")), nil
	}
	return tokenizer.HashFolder(m.ck.TokenizerDir)
}

// settling says how a node comes to the manifest of its model.
type settling struct {
	// choosable: no flag asks for a class, so that the swarm's may be taken.
	choosable bool
	// found: where the swarm serves no such model, name all weights of the files and so found
	// it. Otherwise the manifest stays without them, and nobody serves it.
	found bool
	// block is compared with a manifest before it is taken; -1 for the head.
	block int
	// all: every block is compared, if the files are whole, since nobody here will load them.
	all bool
	// invited is the UID to take, and no other; "" for any.
	invited string
	// cache remembers what files contain.
	cache model.ContentsCache
	// share says whether a model that is founded may be passed on; nil: unless it is gated.
	share *bool
}

// settle fixes what the model is served as: the manifest under which the swarm serves it
// already, if the files hold what that says, so that volunteers complete each other, else one
// made of the files. Manifests of strangers count only as far as balance.Adopt says, and none
// is taken whose contents are not those of the files.
func (m *openModel) settle(ctx context.Context, d *dir.Directory, how settling) error {
	if m.man.Pinned() { // its files were fetched by it
		return nil
	}
	known, cached, err := how.cache.Load(m.ck)
	if err != nil {
		slog.Warn("what is known of the model's files cannot be read", "reason", err)
	}
	d.Meet(ctx, m.man.Name)
	views := slices.DeleteFunc(d.Views(), func(v swarm.View) bool {
		return !balance.SameModel(m.man, v.Manifest) || how.invited != "" && string(v.Manifest.UID()) != how.invited
	})
	// Where servers disagree about what the model contains their number says nothing: the
	// files decide, every block of them.
	if !cached && m.ck.Whole() && len(views) > 0 && (how.all || disagree(views)) {
		if known, err = m.hash(ctx, how.cache); err != nil {
			return err
		}
		cached = true
	}
	var same []swarm.View // with the contents of the files as far as compared
	var refused []error
	for _, v := range views {
		if err := m.compare(v.Manifest, how.block, known, cached); err == nil {
			same = append(same, v)
		} else if errors.Is(err, model.ErrContents) && balance.Reached(v) > 0 {
			refused = append(refused, fmt.Errorf("the swarm's model %.12s: %w", v.Manifest.UID(), err))
		} else if !errors.Is(err, model.ErrContents) {
			return err
		}
	}
	if len(refused) > 0 && len(same) == 0 {
		return usage(errors.Join(refused...))
	}
	if err := m.adopt(same, how.choosable); err != nil {
		return err
	}
	if m.man.Pinned() {
		return nil
	}
	if !how.found {
		return nil
	}
	if !cached {
		if known, err = m.hash(ctx, how.cache); err != nil {
			return err
		}
	}
	m.man.Roots, m.man.Head = known.Blocks, known.Head
	if m.files, err = bundleOf(ctx, m.ck, m.trees); err != nil {
		return usage(err)
	}
	m.man.Files, m.man.Share = m.files.Root(), m.mayShare(how.share)
	if how.invited != "" && string(m.man.UID()) != how.invited {
		return usagef("the invitation is to the model %.12s, whose servers are all away, and the files and flags here give the model %.12s: try again later, or leave --dtype, --quant, --kv-dtype and --share-weights as its founder has them", how.invited, m.man.UID())
	}
	return usage(m.man.Validate())
}

// mayShare tells whether a model that is founded here may be passed on: what its founder says,
// else what everybody can have without terms or a token.
func (m *openModel) mayShare(said *bool) bool {
	switch {
	case said != nil:
		return *said
	case m.fetched == nil || m.fetched.snap.Open:
		return true
	}
	slog.Info("the model's files will not be passed on in this swarm, since the hub asks for terms or a token before it gives them: --share-weights allows it", "model", m.name)
	return false
}

// disagree tells whether servers announce different contents of one model.
func disagree(views []swarm.View) bool {
	return slices.ContainsFunc(views, func(v swarm.View) bool {
		a, b := v.Manifest, views[0].Manifest
		return a.Head != b.Head || !slices.Equal(a.Roots, b.Roots)
	})
}

// adopt takes over the class in which the swarm serves the files' model, and the manifest
// with it: choosable says that no flag asks for another one.
func (m *openModel) adopt(views []swarm.View, choosable bool) error {
	own := m.man
	log := slog.With("model", m.name, "class", own.Class)
	votes, class := balance.Votes(own, views), own.Class
	if choosable {
		var err error
		class, err = balance.Adopt(own, views, func(c swarm.Class) bool {
			_, _, ok := m.inClass(c)
			return ok
		})
		if err != nil {
			return usagef("%w: say which with --dtype, --quant and --kv-dtype", err)
		}
	}
	most := 0
	for _, v := range views {
		if n := balance.Reached(v); v.Manifest.Class == class && n > most {
			m.man, most = v.Manifest, n
		}
	}
	switch apart := votes[own.Class] == 0 && len(votes) > 0; {
	case class != own.Class:
		m.load, m.kv, _ = m.inClass(class)
		log.Info("adopted the class in which the swarm serves this model", "adopted", class)
	case apart && choosable:
		log.Warn("the swarm serves this model in a class that these files or this device cannot give, so this node stands apart from it", "swarm", slices.Collect(maps.Keys(votes)))
	case apart:
		log.Warn("the swarm serves this model in another class, and servers of two classes do not complete each other", "swarm", slices.Collect(maps.Keys(votes)))
	}
	return nil
}

// inClass is how the model must be loaded to be of a class; false if these files or this
// device cannot give it.
func (m *openModel) inClass(c swarm.Class) (model.LoadOptions, tensor.DType, bool) {
	load := model.LoadOptions{DType: c.DType, Quant: c.Quant}
	class, err := m.ck.Class(load)
	kv, kvErr := parseKVDType(c.KVDType)
	return load, kv, err == nil && kvErr == nil && class.DType == c.DType && class.Quant == c.Quant && c.Arithmetic == m.man.Class.Arithmetic
}

// compare tells whether the files are those that a manifest names: of weights that were not
// hashed yet it looks at one part, and whoever loads others compares those.
func (m *openModel) compare(man swarm.Manifest, block int, known model.Contents, cached bool) error {
	switch {
	case m.man.Tokenizer != man.Tokenizer && !m.man.Tokenizer.IsZero() && !man.Tokenizer.IsZero(): // a server needs none
		return fmt.Errorf("%w: the tokenizer of %s is %s, and the manifest says %s. Fetch the files that the swarm serves, or serve yours under another --model-name",
			model.ErrContents, m.ck.Path, m.man.Tokenizer, man.Tokenizer)
	case cached:
		return m.ck.Compare(known, model.Contents{Blocks: man.Roots, Head: man.Head})
	case block < 0:
		return m.ck.CheckHead(man.Head)
	}
	return m.ck.CheckBlock(block, man.Roots[block])
}

// hashLine is how often a long hashing tells how far it is.
const hashLine = 5 * time.Second

// hash names all weights of the files, and remembers them.
func (m *openModel) hash(ctx context.Context, cache model.ContentsCache) (model.Contents, error) {
	if err := m.fetched.all(ctx); err != nil {
		return model.Contents{}, err
	}
	began := time.Now()
	var mu sync.Mutex // guards told
	told := began
	c, err := m.ck.Contents(ctx, func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(told) >= hashLine {
			told = now
			slog.Info("hashing the model's files", "mib", done>>20, "of", total>>20)
		}
	})
	if err != nil {
		return c, err
	}
	slog.Info("hashed the model's files", "mib", m.ck.BytesRead()>>20, "took", time.Since(began).Round(time.Millisecond).String())
	if err := cache.Save(m.ck, c); err != nil {
		slog.Warn("what the model's files contain cannot be kept, and is hashed again at the next start", "reason", err)
	}
	return c, nil
}
