package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Budget gives bytes to frames before they are read. Take waits until there are n, or ctx
// ends; Give gives them back.
type Budget interface {
	Take(ctx context.Context, n int) error
	Give(n int)
}

const (
	// freeBytes is what a stream holds without a budget: frames of decodes. The number of
	// streams bounds it.
	freeBytes = 64 << 10
	// firstPiece is what a frame takes before anything of it has come.
	firstPiece = 4 << 10
	// A large frame must come at no less than slowest bytes a second, after patience.
	slowest  = 64 << 10
	patience = 10 * time.Second
)

// Reader reads frames from one stream. Not for concurrent use.
//
// It is as wary as what is known of the peer asks for: the first frame has one type and a
// small limit ([Reader.First]), and rows are refused until they are allowed. A frame beyond
// 64 KiB takes its bytes from a budget once it has shown that it comes, and gives them back
// before the next one.
type Reader struct {
	r      io.Reader
	hdr    [HeadSize]byte
	buf    []byte // of small frames
	large  *[]byte
	rows   int // largest frame of rows; 0: none may come
	ask    func() int
	ctx    context.Context
	stream Stream // for deadlines of large frames; nil for none
	budget Budget // nil for none
	taken  int
}

// NewReader reads frames from r, which should be buffered if it is a socket.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Charge has frames beyond 64 KiB take their bytes from a budget, for which they wait until
// ctx ends, and come in bounded time. stream is what the reader reads from.
func (r *Reader) Charge(ctx context.Context, stream Stream, b Budget) {
	r.ctx, r.stream, r.budget = ctx, stream, b
}

// AllowRows lets frames of rows come that are rowBytes long each.
func (r *Reader) AllowRows(rowBytes int) { r.rows = RowsLimit(rowBytes) }

// AskRows has rows that are not allowed yet ask how long one may be: 0 refuses them.
func (r *Reader) AskRows(ask func() (rowBytes int)) { r.ask = ask }

// First reads the first frame of a stream, which must be of the given type.
func (r *Reader) First(want Type) ([]byte, error) {
	_, p, err := r.FirstOf(want)
	return p, err
}

// FirstOf reads the first frame of a stream, which must be of one of the given types.
func (r *Reader) FirstOf(want ...Type) (Type, []byte, error) {
	t, size, err := r.head()
	if err != nil {
		return 0, nil, err
	}
	if !slices.Contains(want, t) {
		return 0, nil, fmt.Errorf("%w: type %d instead of %d at the start of a stream", ErrFrame, t, want)
	}
	p, err := r.body(size)
	return t, p, err
}

// Next reads one frame. The payload is valid until the next call. A clean end of the
// stream between frames is io.EOF; inside a frame it is io.ErrUnexpectedEOF.
func (r *Reader) Next() (Type, []byte, error) {
	t, size, err := r.head()
	if err != nil {
		return 0, nil, err
	}
	p, err := r.body(size)
	if err != nil {
		return 0, nil, err
	}
	return t, p, nil
}

// head reads the head of a frame and checks what it announces.
func (r *Reader) head() (Type, int, error) {
	r.Release()
	if _, err := io.ReadFull(r.r, r.hdr[:]); err != nil {
		return 0, 0, err
	}
	t, size := ParseHead(r.hdr)
	if t == 0 || t >= numTypes {
		return 0, 0, fmt.Errorf("%w: unknown type %d", ErrFrame, t)
	}
	limit := t.limit()
	if t == TypeRows || t == TypeJournal || t == TypeChunk {
		if r.rows == 0 && r.ask != nil {
			if n := r.ask(); n > 0 {
				r.AllowRows(n)
			}
		}
		if limit = r.rows; limit == 0 {
			return 0, 0, fmt.Errorf("%w: rows before there is a session for them", ErrFrame)
		}
	}
	if int64(size) > int64(limit) {
		return 0, 0, fmt.Errorf("%w: type %d with %d bytes, at most %d", ErrFrame, t, size, limit)
	}
	return t, int(size), nil
}

// body reads n bytes. A frame that ends early is told from a stream that does.
func (r *Reader) body(n int) (p []byte, err error) {
	if n <= freeBytes {
		p, err = r.small(n)
	} else {
		p, err = r.big(n)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// small reads into the stream's own buffer, growing it as bytes arrive: a peer that announces
// much and sends little costs little.
func (r *Reader) small(n int) ([]byte, error) {
	for have := 0; have < n; {
		want := min(n, max(2*have, firstPiece, cap(r.buf)))
		if cap(r.buf) < want {
			grown := make([]byte, want)
			copy(grown, r.buf[:have])
			r.buf = grown
		}
		r.buf = r.buf[:want]
		if _, err := io.ReadFull(r.r, r.buf[have:want]); err != nil {
			return nil, err
		}
		have = want
	}
	return r.buf[:n], nil
}

// big reads a frame whose first part has come already when it takes the rest of its bytes.
func (r *Reader) big(n int) ([]byte, error) {
	if r.stream != nil {
		r.stream.SetReadDeadline(time.Now().Add(patience + time.Duration(n)*time.Second/slowest))
		defer r.stream.SetReadDeadline(time.Time{})
	}
	head, err := r.small(freeBytes)
	if err != nil {
		return nil, err
	}
	if r.budget != nil {
		ctx, cancel := context.WithTimeout(r.ctx, patience)
		err := r.budget.Take(ctx, n)
		cancel()
		if err != nil {
			return nil, err
		}
		r.taken = n
	}
	r.large = largeBuffer(n)
	p := (*r.large)[:n]
	copy(p, head)
	if _, err := io.ReadFull(r.r, p[freeBytes:]); err != nil {
		return nil, err
	}
	return p, nil
}

// Release gives back what the last frame took; its payload is gone. Next does it too: call it
// where a stream is given up.
func (r *Reader) Release() {
	if r.large != nil {
		larges.Put(r.large)
		r.large = nil
	}
	if r.taken > 0 {
		r.budget.Give(r.taken)
		r.taken = 0
	}
}

// Keep has the payload of the last frame stay valid, and charged, until release is called: whoever
// works on it meanwhile lets the next frame come.
func (r *Reader) Keep() (release func()) {
	large, taken, budget := r.large, r.taken, r.budget
	r.large, r.taken = nil, 0
	if large == nil {
		r.buf = nil // it is in there
		return func() {}
	}
	return func() {
		larges.Put(large)
		if taken > 0 {
			budget.Give(taken)
		}
	}
}

// larges are buffers of large frames, for whoever reads one next.
var larges sync.Pool

func largeBuffer(n int) *[]byte {
	if b, _ := larges.Get().(*[]byte); b != nil && cap(*b) >= n {
		return b
	}
	b := make([]byte, n)
	return &b
}
