package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/share"
	"whorl/swarm/trust"
	"whorl/swarm/wire"
)

// ShareOptions say what a node passes on of its model's files.
type ShareOptions struct {
	Off       bool
	MaxUpload Size
}

// sharing is a node's part in passing files on.
type sharing struct {
	store  share.Store
	client *share.Client

	mu    sync.Mutex // guards all below
	uid   swarm.UID  // whose holders are asked
	files []*os.File // that are being given
}

// startSharing lets the node fetch files from others, and give what is in its store unless
// the flags say no. It waits so long for others who may have them.
func (n *Node) startSharing(f ShareOptions, patience time.Duration) error {
	n.share = new(sharing)
	var err error
	n.share.client, err = n.net.shareClient(n.swarm, n.trust.Book, n.share.model, patience, n.registry, func(p swarm.PeerID, why string) {
		_, engines := n.parts()
		for _, e := range engines {
			e.Leave(p, fmt.Errorf("server %s sent wrong bytes of a file: %s", p.Short(), why))
		}
	})
	if err != nil || f.Off {
		return err
	}
	busy := &activity{count: n.computed}
	pace := share.NewPace(int64(f.MaxUpload), busy.now)
	srv, err := share.NewServer(share.ServerConfig{
		Self: n.net.host.ID(), Swarm: n.swarm, Store: &n.share.store, Pace: pace, Registerer: n.registry,
	})
	if err != nil {
		return err
	}
	live(n.settings, "max-upload", parsed[Size], func(rate Size) { pace.Set(int64(rate)) })
	n.net.host.Handle(wire.ProtoShare, srv.Serve)
	return nil
}

// How long nothing may come from the swarm: others may be starting, or fetch themselves what is
// asked of them; a hub need not be waited for so long.
const (
	nodePatience = 2 * time.Minute
	askPatience  = 15 * time.Second // of somebody at a terminal
	hubPatience  = 8 * time.Second
)

// patience is how long a node waits for others who may have the model's files.
func (m *ModelOptions) patience() time.Duration {
	if m.hasHub() {
		return hubPatience
	}
	return nodePatience
}

// hasHub tells whether a hub can be asked for what an invitation's swarm does not give.
func (m *ModelOptions) hasHub() bool { return m.Place != "" && m.Source.Has(FromHub) }

// model is whose holders are asked.
func (s *sharing) model() swarm.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid
}

func (s *sharing) about(uid swarm.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid = uid
}

// close gives nothing any more.
func (s *sharing) close() {
	if s == nil {
		return
	}
	s.store.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		f.Close()
	}
}

// computed counts what the node has computed for users, on either side.
func (n *Node) computed() (steps uint64) {
	srv, engines := n.parts()
	if srv != nil {
		steps = srv.Status().Steps
	}
	for _, e := range engines {
		for _, s := range e.Sessions() {
			steps += s.Steps
		}
	}
	return steps
}

// activity tells whether a count has risen lately.
type activity struct {
	count func() uint64

	mu     sync.Mutex // guards all below
	last   uint64
	looked time.Time
	rose   time.Time
}

const (
	// activeFor is how long after a step the node counts as busy: the user may be far away.
	activeFor = time.Second
	// lookEvery is how often the count is taken.
	lookEvery = 20 * time.Millisecond
)

func (a *activity) now() bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.looked) >= lookEvery {
		c := a.count()
		if c != a.last {
			a.rose = now
		}
		a.last, a.looked = c, now
	}
	return now.Sub(a.rose) < activeFor
}

// maxHolders bounds whom a transfer thinks of: those that were reached come first.
const maxHolders = 64

// holders lists who may have files of a model: its servers, and connected nodes that pass files
// on, such as gateways; those first that this node has reached, the near before the far.
func (n *network) holders(uid swarm.UID) []swarm.PeerID {
	var out []swarm.PeerID
	reached := map[swarm.PeerID]bool{}
	for _, p := range n.host.Speaks(wire.ProtoShare) {
		reached[p] = true
		out = append(out, p)
	}
	for _, v := range n.Directory.Views() {
		if v.Manifest.UID() != uid {
			continue
		}
		for i := range v.Servers {
			p := v.Servers[i].Peer
			if !reached[p] && v.Servers[i].State > swarm.Offline {
				out = append(out, p)
				reached[p] = !v.Hearsay(p)
			}
		}
	}
	far := func(p swarm.PeerID) float64 {
		switch rtt, ok := n.host.RTT(p); {
		case ok:
			return rtt.Seconds()
		case reached[p]:
			return time.Hour.Seconds()
		}
		return math.Inf(1)
	}
	slices.SortStableFunc(out, func(a, b swarm.PeerID) int { return cmp.Compare(far(a), far(b)) })
	return out[:min(len(out), maxHolders)]
}

// shareClient fetches files from the holders of a model. Who sends wrong bytes is noted in the
// book, and blamed hears of it too.
func (n *network) shareClient(name string, book *trust.Book, uid func() swarm.UID, patience time.Duration, reg prometheus.Registerer, blamed func(swarm.PeerID, string)) (*share.Client, error) {
	cfg := share.DefaultClient()
	cfg.Self, cfg.Swarm, cfg.Dial, cfg.Patience, cfg.Registerer = n.host.ID(), name, n.host.Dial, patience, reg
	cfg.Sources = func() []swarm.PeerID { return n.holders(uid()) }
	cfg.Avoid = func(p swarm.PeerID) bool {
		a, ok := book.Judge(p, n.prefix(p), time.Now())
		return ok && a.Never
	}
	cfg.Blame = func(p swarm.PeerID, detail string) {
		book.Observe(trust.Observation{Peer: p, Prefix: n.prefix(p), Kind: trust.Proven, Detail: detail}, time.Now())
		if blamed != nil {
			blamed(p, detail)
		}
	}
	return share.NewClient(cfg)
}

// give lets others fetch the model's files from this node, as far as they are here. Files of
// this machine or of a hub that the node did not bundle itself are compared with the bundle of
// the swarm's manifest.
func (n *Node) give(ctx context.Context, m *Model) error {
	man := m.Manifest
	n.share.about(man.UID())
	if !man.Shared() {
		slog.Info("the model's files are not passed on", "model", man.Name, "reason", why(man))
		return nil
	}
	if m.files == nil {
		var err error
		if m.files, err = n.bundleOf(ctx, m); err != nil {
			return err
		}
	}
	if m.files.Root() != man.Files {
		return fmt.Errorf("the files here are not divided as those of the swarm are")
	}
	paths := m.Checkpoint.Files()
	for _, f := range m.files.Files {
		hashes := m.files.hashes[f.Root]
		if !f.Fits(hashes) {
			continue // nothing of it is here
		}
		h, err := n.holder(m, paths[f.Name])
		if err == nil {
			err = n.share.store.Add(f.Object, hashes, h)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	n.share.store.AddBytes(m.files.Encode())
	slog.Info("other nodes may fetch the model's files from here, as far as they are here", "model", man.Name, "files", len(m.files.Files))
	return nil
}

// why says why files of a model are not passed on.
func why(man swarm.Manifest) string {
	if !man.Share {
		return "its founder does not allow it (--share-weights does)"
	}
	return "its founder did not name the files"
}

// holder gives bytes of one of the model's files.
func (n *Node) holder(m *Model, path string) (share.Holder, error) {
	if path == "" {
		return nil, errors.New("it is not here")
	}
	if m.fetched != nil {
		if h := m.fetched.Snapshot.HoldingAt(path); h != nil {
			return h, nil
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	n.share.mu.Lock()
	defer n.share.mu.Unlock()
	n.share.files = append(n.share.files, f)
	return wholeFile{f}, nil
}

// wholeFile is a file of which all is here.
type wholeFile struct{ *os.File }

func (wholeFile) Has(int) bool { return true }

// bundleOf finds the bundle of the swarm's manifest for files that came from elsewhere: others
// have it, or the files are whole and give it.
func (n *Node) bundleOf(ctx context.Context, m *Model) (*bundle, error) {
	if m.Checkpoint.Whole() {
		b, err := bundleOf(ctx, m.Checkpoint, m.trees)
		if err != nil || b.Root() == m.Manifest.Files {
			return b, err
		}
	}
	raw, err := n.share.client.Small(ctx, m.Manifest.Files)
	if err != nil {
		return nil, err
	}
	list, err := share.DecodeBundle(raw)
	if err != nil {
		return nil, err
	}
	b := &bundle{Bundle: list, hashes: map[content.Hash][]content.Hash{}}
	paths := m.Checkpoint.Files()
	for _, f := range list.Files {
		if st, err := os.Stat(paths[f.Name]); err != nil || st.Size() != f.Size {
			continue
		}
		if b.hashes[f.Root], err = n.share.client.Hashes(ctx, f.Object); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// gives is give in the background: what cannot be given keeps no node from serving.
func (n *Node) gives(ctx context.Context, m *Model) {
	n.background.Go(func() {
		if err := n.give(ctx, m); err != nil && ctx.Err() == nil {
			slog.Warn("the model's files are not passed on from here", "model", m.Manifest.Name, "reason", err)
		}
	})
}
