package wiring

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
func (m *Model) describe() error {
	class, err := m.Checkpoint.Class(m.load)
	if err != nil {
		return Usage(err)
	}
	tok, err := m.tokenizerHash()
	if err != nil {
		return Usage(err)
	}
	m.Manifest = swarm.Manifest{
		Name: m.Name, Namespace: m.namespace, Blocks: m.Checkpoint.Config.Layers, Hidden: m.Checkpoint.Config.Hidden, Tokenizer: tok,
		Class: swarm.Class{
			ConfigHash: m.Checkpoint.Config.Hash(), DType: class.DType, Quant: class.Quant,
			KVDType: m.kv.String(), Arithmetic: m.Device.Info().Arithmetic,
		},
	}
	return Usage(m.Manifest.Validate())
}

func (m *Model) tokenizerHash() (content.Hash, error) {
	if m.Checkpoint.Source == weights.GGUF {
		return tokenizer.HashGGUF(m.Checkpoint.Metadata().Encode("tokenizer.")), nil
	}
	return tokenizer.HashFolder(m.Checkpoint.TokenizerDir)
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
func (m *Model) settle(ctx context.Context, d *dir.Directory, how settling) error {
	if m.Manifest.Pinned() { // its files were fetched by it
		return nil
	}
	known, cached, err := how.cache.Load(m.Checkpoint)
	if err != nil {
		slog.Warn("what is known of the model's files cannot be read", "reason", err)
	}
	d.Meet(ctx, m.Manifest.Name)
	if how.invited != "" && m.Manifest.Namespace == "" { // the UID says which
		for _, v := range d.Views() {
			if string(v.Manifest.UID()) == how.invited {
				m.Manifest.Namespace = v.Manifest.Namespace
			}
		}
	}
	views := slices.DeleteFunc(d.Views(), func(v swarm.View) bool {
		return !balance.SameModel(m.Manifest, v.Manifest) || how.invited != "" && string(v.Manifest.UID()) != how.invited
	})
	// Where servers disagree about what the model contains their number says nothing: the
	// files decide, every block of them.
	if !cached && m.Checkpoint.Whole() && len(views) > 0 && (how.all || disagree(views)) {
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
		return Usage(errors.Join(refused...))
	}
	if err := m.adopt(same, how.choosable); err != nil {
		return err
	}
	if m.Manifest.Pinned() {
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
	m.Manifest.Roots, m.Manifest.Head = known.Blocks, known.Head
	if m.files, err = bundleOf(ctx, m.Checkpoint, m.trees); err != nil {
		return Usage(err)
	}
	m.Manifest.Files, m.Manifest.Share = m.files.Root(), m.mayShare(how.share)
	if how.invited != "" && string(m.Manifest.UID()) != how.invited {
		return Usagef("the invitation is to the model %.12s, whose servers are all away, and the files and flags here give the model %.12s: try again later, or leave --dtype, --quant, --kv-dtype, --dht-prefix and --share-weights as its founder has them", how.invited, m.Manifest.UID())
	}
	return Usage(m.Manifest.Validate())
}

// mayShare tells whether a model that is founded here may be passed on: what its founder says,
// else what everybody can have without terms or a token.
func (m *Model) mayShare(said *bool) bool {
	switch {
	case said != nil:
		return *said
	case m.fetched == nil || m.fetched.Snapshot.Open:
		return true
	}
	slog.Info("the model's files will not be passed on in this swarm, since the hub asks for terms or a token before it gives them: --share-weights allows it", "model", m.Name)
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
func (m *Model) adopt(views []swarm.View, choosable bool) error {
	own := m.Manifest
	log := slog.With("model", m.Name, "class", own.Class)
	votes, class := balance.Votes(own, views), own.Class
	if choosable {
		var err error
		class, err = balance.Adopt(own, views, func(c swarm.Class) bool {
			_, _, ok := m.inClass(c)
			return ok
		})
		if err != nil {
			return Usagef("%w: say which with --dtype, --quant and --kv-dtype", err)
		}
	}
	most := 0
	for _, v := range views {
		if n := balance.Reached(v); v.Manifest.Class == class && n > most {
			m.Manifest, most = v.Manifest, n
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
func (m *Model) inClass(c swarm.Class) (model.LoadOptions, tensor.DType, bool) {
	load := model.LoadOptions{DType: c.DType, Quant: c.Quant}
	class, err := m.Checkpoint.Class(load)
	kv, kvErr := parseKVDType(c.KVDType)
	return load, kv, err == nil && kvErr == nil && class.DType == c.DType && class.Quant == c.Quant && c.Arithmetic == m.Manifest.Class.Arithmetic
}

// compare tells whether the files are those that a manifest names: of weights that were not
// hashed yet it looks at one part, and whoever loads others compares those.
func (m *Model) compare(man swarm.Manifest, block int, known model.Contents, cached bool) error {
	switch {
	case m.Manifest.Tokenizer != man.Tokenizer && !m.Manifest.Tokenizer.IsZero() && !man.Tokenizer.IsZero(): // a server needs none
		return fmt.Errorf("%w: the tokenizer of %s is %s, and the manifest says %s. Fetch the files that the swarm serves, or serve yours under another --model-name",
			model.ErrContents, m.Checkpoint.Path, m.Manifest.Tokenizer, man.Tokenizer)
	case cached:
		return m.Checkpoint.Compare(known, model.Contents{Blocks: man.Roots, Head: man.Head})
	case block < 0:
		return m.Checkpoint.CheckHead(man.Head)
	}
	return m.Checkpoint.CheckBlock(block, man.Roots[block])
}

// hashLine is how often a long hashing tells how far it is.
const hashLine = 5 * time.Second

// hash names all weights of the files, and remembers them.
func (m *Model) hash(ctx context.Context, cache model.ContentsCache) (model.Contents, error) {
	if err := m.fetched.All(ctx); err != nil {
		return model.Contents{}, err
	}
	began := time.Now()
	var mu sync.Mutex // guards told
	told := began
	c, err := m.Checkpoint.Contents(ctx, func(done, total int64) {
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
	slog.Info("hashed the model's files", "mib", m.Checkpoint.BytesRead()>>20, "took", time.Since(began).Round(time.Millisecond).String())
	if err := cache.Save(m.Checkpoint, c); err != nil {
		slog.Warn("what the model's files contain cannot be kept, and is hashed again at the next start", "reason", err)
	}
	return c, nil
}
