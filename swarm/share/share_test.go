package share

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"whorl/content"
	"whorl/swarm"
	"whorl/swarm/wire"
)

// random is so many bytes of a seed.
func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(seed)})
	src.Read(b)
	return b
}

// world is a network in memory: nodes by name that answer streams.
type world struct {
	t  *testing.T
	mu sync.Mutex // guards all below

	answer map[swarm.PeerID]func(context.Context, swarm.PeerID, wire.Stream)
	order  []swarm.PeerID
	blamed map[swarm.PeerID]string
	wg     sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, answer: map[swarm.PeerID]func(context.Context, swarm.PeerID, wire.Stream){}, blamed: map[swarm.PeerID]string{}}
	t.Cleanup(w.wg.Wait)
	return w
}

// node adds a node that gives the objects of a store.
func (w *world) node(name swarm.PeerID, store *Store, pace *Pace) *Server {
	s, err := NewServer(ServerConfig{Self: name, Swarm: "test", Store: store, Pace: pace})
	if err != nil {
		w.t.Fatal(err)
	}
	w.handle(name, s.Serve)
	return s
}

func (w *world) handle(name swarm.PeerID, f func(context.Context, swarm.PeerID, wire.Stream)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer[name] = f
	w.order = append(w.order, name)
}

func (w *world) client(edit ...func(*ClientConfig)) *Client {
	cfg := DefaultClient()
	cfg.Self, cfg.Swarm, cfg.Patience = "me", "test", 300*time.Millisecond
	cfg.Dial = func(_ context.Context, p swarm.PeerID, proto string) (wire.Stream, error) {
		w.mu.Lock()
		f := w.answer[p]
		w.mu.Unlock()
		if f == nil || proto != wire.ProtoShare {
			return nil, swarm.Errorf(swarm.CodePeerLost, swarm.Elsewhere, "no node %s", p)
		}
		near, far := wire.Pipe()
		w.wg.Go(func() {
			defer far.Reset()
			f(context.Background(), "me", far)
		})
		return near, nil
	}
	cfg.Sources = func() []swarm.PeerID {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(w.order)
	}
	cfg.Blame = func(p swarm.PeerID, detail string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blamed[p] = detail
	}
	for _, e := range edit {
		e(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// some holds only some pieces of bytes.
type some struct {
	memory
	has func(int) bool
}

func (s some) Has(i int) bool { return s.has(i) }

// together gives nothing before all holders were asked.
type together struct {
	memory
	once sync.Once
	all  *sync.WaitGroup
}

func (h *together) ReadAt(p []byte, off int64) (int, error) {
	h.once.Do(h.all.Done)
	h.all.Wait()
	return h.memory.ReadAt(p, off)
}

func storeOf(t *testing.T, data []byte, from Holder) (*Store, Object) {
	t.Helper()
	s := new(Store)
	o := Object{content.Tree(data), int64(len(data))}
	if err := s.Add(o, HashPieces(data), from); err != nil {
		t.Fatal(err)
	}
	return s, o
}

func all(o Object) []int {
	out := make([]int, o.Pieces())
	for i := range out {
		out[i] = i
	}
	return out
}

// collect is a sink that puts pieces together.
func collect(o Object) (data []byte, sink func(int, []byte) error, calls *atomic.Int64) {
	data, calls = make([]byte, o.Size), new(atomic.Int64)
	return data, func(i int, b []byte) error {
		calls.Add(1)
		copy(data[int64(i)*wire.PieceSize:], b)
		return nil
	}, calls
}

// An object comes whole, from all who have it, each piece once.
func TestFetchFromSeveral(t *testing.T) {
	w := newWorld(t)
	data := random(9*wire.PieceSize+12345, 1)
	var servers []*Server
	var o Object
	var asked sync.WaitGroup // until all three are: none gives anything before
	asked.Add(3)
	for _, name := range []swarm.PeerID{"a", "b", "c"} {
		var s *Store
		s, o = storeOf(t, data, &together{memory: data, all: &asked})
		servers = append(servers, w.node(name, s, nil))
	}
	w.node("other", new(Store), nil) // has nothing
	c := w.client(func(c *ClientConfig) { c.Patience = time.Minute })
	hashes, err := c.Hashes(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	got, sink, calls := collect(o)
	if err := c.Fetch(context.Background(), o, hashes, all(o), sink); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || calls.Load() != int64(o.Pieces()) {
		t.Errorf("%d pieces came, wanted %d, equal: %v", calls.Load(), o.Pieces(), bytes.Equal(got, data))
	}
	var sent int64
	for i, s := range servers {
		sent += s.Sent()
		if s.Sent() == 0 {
			t.Errorf("holder %d gave nothing", i)
		}
	}
	if len(w.blamed) > 0 || sent > o.Size+2*wire.PieceSize {
		t.Errorf("%d bytes were sent of %d; blamed: %v", sent, o.Size, w.blamed)
	}
}

// Small objects and the trees of pieces of large ones come by their hash alone.
func TestSmallAndHashes(t *testing.T) {
	w := newWorld(t)
	s := new(Store)
	text, none := []byte(`{"a": "text"}`), []byte{}
	o, empty := s.AddBytes(text), s.AddBytes(none)
	w.node("a", s, nil)
	c := w.client()
	for _, want := range []struct {
		root content.Hash
		data []byte
	}{{o.Root, text}, {empty.Root, none}} {
		if got, err := c.Small(context.Background(), want.root); err != nil || !bytes.Equal(got, want.data) {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := c.Small(context.Background(), content.LeafOf([]byte("else")))
	if m := (*Missing)(nil); !errors.Is(err, ErrNobody) || !errors.As(err, &m) || m.Asked != 1 {
		t.Errorf("an object that nobody has: %v", err)
	}
	if c := w.client(func(c *ClientConfig) { c.Swarm = "another" }); c != nil {
		if _, err := c.Small(context.Background(), o.Root); swarm.CodeOf(errors.Unwrap(errors.Join(err))) == "" && !errors.Is(err, ErrNobody) {
			t.Errorf("a node of another swarm gets: %v", err)
		}
	}
}

// liar gives objects of a store with some bytes changed on the way.
func (w *world) liar(name swarm.PeerID, s *Store, change func(t wire.Type, payload []byte)) {
	srv, err := NewServer(ServerConfig{Self: name, Swarm: "test", Store: s})
	if err != nil {
		w.t.Fatal(err)
	}
	w.handle(name, func(ctx context.Context, from swarm.PeerID, st wire.Stream) {
		near, far := wire.Pipe()
		w.wg.Go(func() { defer far.Reset(); srv.Serve(ctx, from, far) })
		w.wg.Go(func() { // questions
			defer near.Close()
			buf := make([]byte, 4096)
			for {
				n, err := st.Read(buf)
				if err != nil {
					return
				}
				near.Write(buf[:n])
			}
		})
		r := wire.NewReader(near)
		r.AllowRows(1)
		for {
			t, p, err := r.Next()
			if err != nil {
				return
			}
			p = bytes.Clone(p)
			change(t, p)
			if _, err := st.Write(wire.AppendFrame(nil, t, p)); err != nil {
				return
			}
		}
	})
}

// One of three holders sends wrong bytes: it is found, blamed alone, and the rest comes from
// the others; nothing wrong reaches the sink.
func TestWrongBytes(t *testing.T) {
	data := random(12*wire.PieceSize+99, 2)
	flip := func(of wire.Type, at int) func(wire.Type, []byte) {
		return func(t wire.Type, p []byte) {
			if t == of && len(p) > at {
				p[at] ^= 1
			}
		}
	}
	for _, x := range []struct {
		name   string
		change func(wire.Type, []byte)
	}{
		{"a byte of each piece", flip(wire.TypePiece, 70000)},
		{"a byte of each page of hashes", flip(wire.TypeHashes, 40)},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t)
			s, o := storeOf(t, data, memory(data))
			w.liar("liar", s, x.change)
			w.node("a", s, nil)
			w.node("b", s, nil)
			c := w.client(func(c *ClientConfig) { c.Patience = 5 * time.Second })
			hashes, err := c.Hashes(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			got, sink, _ := collect(o)
			if err := c.Fetch(context.Background(), o, hashes, all(o), sink); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data) {
				t.Error("wrong bytes were taken")
			}
			if len(w.blamed) != 1 || w.blamed["liar"] == "" {
				t.Errorf("blamed: %v", w.blamed)
			}
		})
	}
}

// Holders of parts complete each other, and one that is still fetching passes on what it has.
func TestParts(t *testing.T) {
	w := newWorld(t)
	data := random(8*wire.PieceSize, 3)
	even, o := storeOf(t, data, some{data, func(i int) bool { return i%2 == 0 }})
	var open atomic.Bool
	odd, _ := storeOf(t, data, some{data, func(i int) bool { return i%2 == 1 && (i < 5 || open.Load()) }})
	w.node("even", even, nil)
	w.node("odd", odd, nil)
	c := w.client(func(c *ClientConfig) { c.Patience = 10 * time.Second })
	got, sink, calls := collect(o)
	err := c.Fetch(context.Background(), o, HashPieces(data), all(o), func(i int, b []byte) error {
		defer func() {
			if calls.Load() == 6 {
				open.Store(true) // the rest comes later
			}
		}()
		return sink(i, b)
	})
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v, equal: %v", err, bytes.Equal(got, data))
	}
}

// Peers that have nothing of what is wanted do not keep out those that have it.
func TestManyWithoutIt(t *testing.T) {
	w := newWorld(t)
	data := random(3*wire.PieceSize, 10)
	for i := range 20 {
		empty, _ := storeOf(t, data, some{data, func(int) bool { return false }})
		w.node(swarm.PeerID(fmt.Sprintf("empty-%02d", i)), empty, nil)
	}
	s, o := storeOf(t, data, memory(data))
	w.node("holder", s, nil) // the last
	got, sink, _ := collect(o)
	c := w.client(func(c *ClientConfig) { c.Patience = time.Minute })
	if err := c.Fetch(context.Background(), o, HashPieces(data), all(o), sink); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v, equal: %v", err, bytes.Equal(got, data))
	}
}

// What nobody has is named, and what is there came nevertheless.
func TestNobodyHasIt(t *testing.T) {
	w := newWorld(t)
	data := random(4*wire.PieceSize, 4)
	s, o := storeOf(t, data, some{data, func(i int) bool { return i != 2 }})
	w.node("a", s, nil)
	_, sink, calls := collect(o)
	err := w.client().Fetch(context.Background(), o, HashPieces(data), all(o), sink)
	m := (*Missing)(nil)
	if !errors.As(err, &m) || !slices.Equal(m.Lacking, []int{2}) || calls.Load() != 3 {
		t.Errorf("%v after %d pieces", err, calls.Load())
	}
}

// A disk that is full ends the transfer with what the disk said.
func TestSinkFails(t *testing.T) {
	w := newWorld(t)
	data := random(3*wire.PieceSize, 5)
	s, o := storeOf(t, data, memory(data))
	w.node("a", s, nil)
	full := errors.New("no room")
	if err := w.client().Fetch(context.Background(), o, HashPieces(data), all(o), func(int, []byte) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

// A file that was changed on the disk is not given: whoever gave it would be a liar.
func TestChangedFile(t *testing.T) {
	w := newWorld(t)
	data := random(2*wire.PieceSize, 6)
	changed := bytes.Clone(data)
	changed[wire.PieceSize+7] ^= 1
	s, o := storeOf(t, data, memory(changed))
	w.node("a", s, nil)
	_, sink, calls := collect(o)
	err := w.client().Fetch(context.Background(), o, HashPieces(data), all(o), sink)
	if !errors.Is(err, ErrNobody) || calls.Load() != 1 || len(w.blamed) > 0 {
		t.Errorf("%v after %d pieces; blamed %v", err, calls.Load(), w.blamed)
	}
}

// A holder that stops in mid-piece does not hold up what another has.
func TestSilentHolder(t *testing.T) {
	w := newWorld(t)
	data := random(4*wire.PieceSize, 7)
	s, o := storeOf(t, data, memory(data))
	stop := make(chan struct{})
	w.handle("silent", func(ctx context.Context, _ swarm.PeerID, st wire.Stream) {
		st.Write(wire.AppendHave(nil, wire.Have{Size: o.Size}))
		st.Write(wire.AppendPieceHeader(nil, 0, wire.PieceSize))
		<-stop
	})
	defer close(stop)
	w.node("a", s, NewPace(8<<20, nil)) // so that the silent one is asked too
	got, sink, _ := collect(o)
	c := w.client(func(c *ClientConfig) { c.Patience = 30 * time.Second })
	if err := c.Fetch(context.Background(), o, HashPieces(data), all(o), sink); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v, equal: %v", err, bytes.Equal(got, data))
	}
}

func TestBundle(t *testing.T) {
	f := func(name string) File { return File{name, Object{content.LeafOf([]byte(name)), 5}} }
	b, err := NewBundle([]File{f("config.json"), f("model.safetensors")})
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeBundle(b.Encode())
	if err != nil || back.Root() != b.Root() || len(back.Files) != 2 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range [][]File{
		nil, {f("b"), f("a")}, {f("a"), f("a")}, {f("../a")}, {f(".hidden")}, {f("")}, {f("a\x00b")}, {f(`a\b`)},
		{{"a", Object{content.Hash{}, 5}}}, {{"a", Object{b.Root(), -1}}}, {{"a", Object{b.Root(), 1 << 50}}},
	} {
		if _, err := NewBundle(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	for _, bad := range []string{"", "{}", `{"bundle":2,"files":[]}`, string(b.Encode()) + " ", string(bytes.Replace(b.Encode(), []byte("5"), []byte("5.0"), 1))} {
		if _, err := DecodeBundle([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestHashObject(t *testing.T) {
	for _, n := range []int{0, 1, wire.PieceSize, 3*wire.PieceSize + 70000} {
		data := random(n, 8)
		o, hashes, err := HashObject(context.Background(), bytes.NewReader(data), int64(n))
		if err != nil || o.Root != content.Tree(data) || !slices.Equal(hashes, HashPieces(data)) {
			t.Errorf("%d bytes: %+v, %v", n, o, err)
		}
	}
	if _, _, err := HashObject(context.Background(), bytes.NewReader(nil), 5); err == nil {
		t.Error("a file that is too short is hashed")
	}
}

func ExampleObject() {
	o := Object{Size: 3*wire.PieceSize + 1}
	fmt.Println(o.Pieces())
	// Output: 4
}
