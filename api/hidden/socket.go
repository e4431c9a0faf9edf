package hidden

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
	"whorl/swarm/budget"
)

// Dialect serves the operations with the tag research.
type Dialect struct{ *api.API }

// protocol is the version of the messages.
const protocol = 1

const (
	// memoryWait is how long a message may wait for memory.
	memoryWait = 10 * time.Second
	// slowestLine is what a caller's line carries at least, in bytes a second, beside the time that
	// any message may take.
	slowestLine = 64 << 10
)

// socket is one WebSocket. Three goroutines serve it: one reads, one pings, and the handler's own
// does what the messages ask for, in their order, and writes.
type socket struct {
	api    *api.API
	id     string
	model  model
	layers api.Layers
	engine api.Engine
	user   string // see api.Sit
	memory budget.Hold
	most   int64 // bytes of one request
	conn   *websocket.Conn
	in     chan *request
	end    context.CancelCauseFunc // of the socket's context; its cause is a *closing
}

// closing is how a socket ends: with a close code. Code 0 says nothing, there is nobody to hear it.
type closing struct {
	code int
	why  string
	err  error // that a last reply tells of; nil for none
}

func (c *closing) Error() string { return "socket closed: " + c.why }

var gone = &closing{why: "the client went away"}

// HiddenSocket serves hidden states over a WebSocket.
func (a Dialect) HiddenSocket(w http.ResponseWriter, r *http.Request, params gen.HiddenSocketParams) {
	if !websocket.IsWebSocketUpgrade(r) { // before a model is looked for
		a.Upgrade(w, r)
		return
	}
	e, err := a.Engine(r.Context(), api.Value(params.Model, ""))
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	layers, err := api.LayersOf(e)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	conn, user, leave, ok := a.Upgrade(w, r)
	if !ok {
		return
	}
	defer leave()
	m := e.Model()
	s := &socket{api: a.API, id: api.RequestID(r), model: model{m, m.Manifest.Hidden}, layers: layers, engine: e, user: user, conn: conn, in: make(chan *request, a.Limits.Queue)}
	s.memory, s.most = a.RowsOf(r)
	s.run(r.Context())
}

// run serves the socket to its end; nothing it started is left when it returns.
func (s *socket) run(ctx context.Context) {
	ctx, s.end = context.WithCancelCause(ctx)
	var both sync.WaitGroup
	read := make(chan struct{})
	both.Go(func() { defer close(read); s.reader(ctx) })
	both.Go(func() { s.pinger(ctx) })
	last := s.serve(ctx)
	s.end(last)
	if last.code != 0 {
		if last.err != nil {
			s.write(s.failed(0, last.err))
		}
		api.Goodbye(s.conn, last.code, last.why, read)
	}
	s.conn.Close()
	both.Wait()
	for len(s.in) > 0 {
		(<-s.in).free()
	}
	s.api.Log.Debug("socket closed", "id", s.id, "code", last.code, "why", last.why)
}

// serve does what the messages ask for until the socket must end.
func (s *socket) serve(ctx context.Context) *closing {
	t := talk{socket: s}
	defer t.close()
	if !s.write(s.ready()) {
		return gone
	}
	idle := time.NewTimer(s.api.Limits.Idle)
	defer idle.Stop()
	for ctx.Err() == nil {
		select {
		case q := <-s.in:
			ok := t.handle(ctx, q)
			q.free()
			if !ok && ctx.Err() == nil {
				return gone
			}
			idle.Reset(s.api.Limits.Idle)
		case <-idle.C:
			return &closing{websocket.CloseNormalClosure, string(api.CodeIdle), api.Refused(api.CodeIdle, "nothing was asked for %v", s.api.Limits.Idle)}
		case <-ctx.Done():
		}
	}
	var c *closing
	if errors.As(context.Cause(ctx), &c) {
		return c
	}
	return &closing{code: websocket.CloseGoingAway, why: "the node stops"}
}

// ready is the first message.
func (s *socket) ready() *reply {
	uid, version, rows, m := string(s.model.UID), protocol, maxRows, &s.model
	var adapter *string
	if text := api.AdapterOf(s.engine); text != "" {
		adapter = &text
	}
	return &reply{HiddenReply: gen.HiddenReply{
		Type: gen.HiddenReplyTypeReady, Adapter: adapter, Protocol: &version, Model: &m.Name, Uid: &uid, Blocks: &m.Manifest.Blocks, Hidden: &m.hidden, Vocab: &m.Vocab, MaxLength: &m.MaxLength,
		RequestBytes: &s.most, RequestRows: &rows,
	}}
}

// failed is an error as a reply.
func (s *socket) failed(id int64, err error) *reply {
	f := api.Describe(err)
	if f.Code == swarm.CodeInternal {
		s.api.Log.Error("request failed", "id", s.id, "error", err)
	}
	e := f.Socket()
	return &reply{HiddenReply: gen.HiddenReply{Id: id, Type: gen.HiddenReplyTypeError, Error: &e}}
}

// write sends a message; false if nobody takes it.
func (s *socket) write(p *reply) bool {
	b, err := p.encode()
	if err != nil {
		if b, err = s.failed(p.Id, err).encode(); err != nil {
			return false
		}
	}
	s.conn.SetWriteDeadline(time.Now().Add(s.api.Limits.Write + time.Duration(len(b))*time.Second/slowestLine))
	return s.conn.WriteMessage(websocket.BinaryMessage, b) == nil
}

// pinger asks the other side whether it is there; the reader hears the answer, or misses it.
func (s *socket) pinger(ctx context.Context) {
	ping := time.NewTicker(s.api.Limits.Ping)
	defer ping.Stop()
	for {
		select {
		case <-ping.C: // one that has to wait for a long message says nothing
			s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.api.Limits.Ping))
		case <-ctx.Done():
			return
		}
	}
}

// reader takes messages in until the client goes, or must go.
func (s *socket) reader(ctx context.Context) {
	s.conn.SetReadLimit(4 + maxHeader + s.most)
	patience := s.api.Limits.Idle + 2*s.api.Limits.Ping
	within := false // a message, whose time is its own
	alive := func(string) error {
		if within {
			return nil
		}
		return s.conn.SetReadDeadline(time.Now().Add(patience))
	}
	s.conn.SetPongHandler(alive)
	for {
		within = false
		alive("")
		kind, r, err := s.conn.NextReader()
		if err != nil { // too large a message was answered with code 1009 by the library
			s.end(gone)
			return
		}
		within = true
		q, err := s.message(ctx, kind, r)
		if err != nil {
			var c *closing
			if !errors.As(err, &c) {
				c = gone
			}
			s.end(c)
			if c.code == 0 {
				return
			}
			s.drain()
			return
		}
		select {
		case s.in <- q:
		default:
			q.free()
			s.end(&closing{websocket.CloseTryAgainLater, string(api.CodeQueueFull), api.Refused(api.CodeQueueFull, "more than %d messages wait: read the answers", s.api.Limits.Queue)})
			s.drain()
			return
		}
	}
}

// drain waits for the client to go, for a second: what it sends still is not taken.
func (s *socket) drain() {
	s.conn.SetReadDeadline(time.Now().Add(time.Second))
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

// message reads one. An error ends the socket; what is wrong with a request alone stands in it.
func (s *socket) message(ctx context.Context, kind int, r io.Reader) (*request, error) {
	s.conn.SetReadDeadline(time.Now().Add(s.api.Limits.Body))
	if kind != websocket.BinaryMessage {
		return nil, breaks(api.Refused(api.CodeFrame, "a message is text: send a header and numbers in a binary one"))
	}
	header, err := readHeader(r)
	q := &request{free: func() {}}
	if err == nil {
		q.HiddenRequest, err = parse(s.api, header)
	}
	if err != nil {
		return nil, breaks(err)
	}
	if q.size, q.err = s.model.sizeOf(&q.HiddenRequest); q.err == nil {
		q.err = s.take(ctx, q)
	}
	s.conn.SetReadDeadline(time.Now().Add(s.api.Limits.Body + time.Duration(s.most)*time.Second/slowestLine))
	if q.err == nil {
		s.conn.SetReadDeadline(time.Now().Add(s.api.Limits.Body + time.Duration(4*q.size.values)*time.Second/slowestLine))
		q.err = q.read(r)
	}
	if q.err == nil {
		return q, nil
	}
	q.free()
	q.free = func() {}
	if swarm.CodeOf(q.err) == swarm.CodeInternal { // the connection failed
		return nil, gone
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, gone
	}
	return q, nil
}

// breaks is the end of a socket by a message that breaks the protocol, or by a connection that fails.
func breaks(err error) *closing {
	if swarm.CodeOf(err) != api.CodeFrame {
		return gone
	}
	return &closing{websocket.ClosePolicyViolation, string(api.CodeFrame), err}
}

// take takes the memory of a request before it is read.
func (s *socket) take(ctx context.Context, q *request) error {
	n := q.size.bytes
	if n > s.most {
		return swarm.Errorf(swarm.CodeTooLong, swarm.Caller, "a request of the type %s with so many rows takes %d bytes here, of %d that one may: send fewer at a time", q.Type, n, s.most)
	}
	ctx, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	if err := s.memory.Pool.Wait(ctx, n, s.memory.Who); err != nil {
		return full(err)
	}
	var once sync.Once
	q.free = func() { once.Do(func() { s.memory.Pool.Give(n, s.memory.Who) }) }
	return nil
}

// full is that there is no memory now.
func full(err error) error {
	return swarm.Errorf(swarm.CodeTooMany, swarm.Again, "%v: send the request again later, or fewer rows at a time", err)
}
