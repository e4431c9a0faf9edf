package petals

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"whorl/api"
	"whorl/api/gen"
)

// socketProtocol is the version of the protocol's added fields.
const socketProtocol = 2

// outbound is how many frames may wait for a slow reader.
const outbound = 64

// socket is one WebSocket of the chat protocol. Three goroutines serve it: one reads, one
// writes, and the handler's own does what the frames ask for, in their order.
type socket struct {
	api  *api.API
	id   string
	user string // see api.Sit
	conn *websocket.Conn
	in   chan inbound
	out  chan any
	end  context.CancelCauseFunc // of the socket's context; its cause is a *closing
	read chan struct{}           // closed when the reader has ended
	quit chan struct{}           // closed when nothing more will be sent but what is in out
	last *closing                // how the writer says goodbye; set before quit is closed

	mu     sync.Mutex
	cancel context.CancelFunc // guarded by mu: ends the running turn, nil if none runs
}

// inbound is a frame that was read: its fields, or why it breaks the protocol.
type inbound struct {
	kind   string
	fields *fields
	err    error
}

// closing is how a socket ends: with a frame and a close code. Code 0 says nothing, there
// is nobody to hear it.
type closing struct {
	frame any
	code  int
	why   string
}

func (c *closing) Error() string { return "socket closed: " + c.why }

// failed is the end of a socket by an error.
func failed(err error) *closing {
	f := api.Describe(err)
	c := &closing{frame: failureOf(f, err), code: websocket.CloseInternalServerErr, why: string(f.Code)}
	switch {
	case f.Code == api.CodeIdle:
		c.code = websocket.CloseNormalClosure
	case f.Retryable:
		c.code = websocket.CloseTryAgainLater
	case f.Status < 500:
		c.code = websocket.ClosePolicyViolation
	}
	return c
}

var gone = &closing{why: "the client went away"}

// GenerateSocket serves inference sessions over a WebSocket.
func (a Dialect) GenerateSocket(w http.ResponseWriter, r *http.Request) {
	conn, user, leave, ok := a.Upgrade(w, r)
	if !ok {
		return
	}
	defer leave()
	s := &socket{api: a.API, id: api.RequestID(r), user: user, conn: conn, in: make(chan inbound, a.Limits.Queue), out: make(chan any, outbound), read: make(chan struct{}), quit: make(chan struct{})}
	s.run(r.Context())
}

// run serves the socket to its end; nothing it started is left when it returns.
func (s *socket) run(ctx context.Context) {
	ctx, s.end = context.WithCancelCause(ctx)
	var both sync.WaitGroup
	both.Go(func() { s.reader(ctx) })
	both.Go(s.writer)
	s.last = s.serve(ctx)
	s.end(s.last)
	close(s.quit)
	both.Wait()
	s.api.Log.Debug("socket closed", "id", s.id, "code", s.last.code, "why", s.last.why)
}

// serve does what the frames ask for until the socket must end.
func (s *socket) serve(ctx context.Context) *closing {
	t := talk{socket: s}
	defer t.close()
	idle := time.NewTimer(s.api.Limits.Idle)
	defer idle.Stop()
	for ctx.Err() == nil {
		select {
		case m := <-s.in:
			if c := t.handle(ctx, m); c != nil && ctx.Err() == nil {
				return c
			}
			idle.Reset(s.api.Limits.Idle)
		case <-idle.C:
			return failed(api.Refused(api.CodeIdle, "nothing was asked for %v", s.api.Limits.Idle))
		case <-ctx.Done():
		}
	}
	return endOf(ctx)
}

// endOf is why the socket's context ended.
func endOf(ctx context.Context) *closing {
	var c *closing
	if errors.As(context.Cause(ctx), &c) {
		return c
	}
	return &closing{code: websocket.CloseGoingAway, why: "the node stops"}
}

// reader takes frames in. cancel and ping are answered at once, all others wait their turn.
// After a frame that breaks the protocol it only waits for the client to go.
func (s *socket) reader(ctx context.Context) {
	defer close(s.read)
	s.conn.SetReadLimit(s.api.Limits.FrameBytes)
	patience := s.api.Limits.Idle + 2*s.api.Limits.Ping
	alive := func(string) error { return s.conn.SetReadDeadline(time.Now().Add(patience)) }
	s.conn.SetPongHandler(alive)
	for broken := false; ; {
		alive("")
		kind, b, err := s.conn.ReadMessage()
		if err != nil { // too large a frame was answered with code 1009 by the library
			s.end(gone)
			return
		}
		if broken {
			continue
		}
		m := parseFrame(kind, b)
		switch {
		case m.kind == "ping":
			s.send(ctx, gen.SocketPong{Ok: true, Type: gen.SocketPongTypePong})
			continue
		case m.kind == "cancel":
			cancel := s.runningTurn()
			running := cancel != nil
			s.send(ctx, gen.SocketState{Ok: true, Type: gen.SocketStateTypeCancel, Running: &running})
			if running { // after the answer: the turn's last frame must not overtake it
				cancel()
			}
			continue
		}
		broken = m.err != nil
		select {
		case s.in <- m:
		default:
			s.end(failed(api.Refused(api.CodeQueueFull, "more than %d frames wait: read the answers", s.api.Limits.Queue)))
			broken = true
		}
	}
}

// parseFrame reads a frame.
func parseFrame(kind int, b []byte) inbound {
	if kind != websocket.TextMessage {
		return inbound{err: api.Refused(api.CodeFrame, "a frame is binary: send JSON in text frames")}
	}
	f, err := fieldsOfJSON(b)
	if err != nil {
		return inbound{err: api.Refused(api.CodeFrame, "a frame is %v", err)}
	}
	name := f.text("type", maxModelName)
	if f.err != nil {
		return inbound{err: api.Refused(api.CodeFrame, "a frame's %v", f.err)}
	}
	switch name {
	case "open_inference_session", "generate", "truncate", "keep", "close", "cancel", "ping":
		return inbound{kind: name, fields: f}
	}
	return inbound{err: api.Refused(api.CodeFrame, "a frame has the type %q: want open_inference_session or generate", api.Clip(name))}
}

// send hands a frame to the writer. A reader that lets too many wait for too long is
// given up.
func (s *socket) send(ctx context.Context, frame any) {
	select {
	case s.out <- frame:
		return
	default:
	}
	slow := time.NewTimer(s.api.Limits.Write / 2)
	defer slow.Stop()
	select {
	case s.out <- frame:
	case <-ctx.Done():
	case <-slow.C:
		s.end(&closing{code: websocket.CloseTryAgainLater, why: "the reader is too slow"})
	}
}

// writer sends frames and pings. It ends, and the connection with it, after quit.
func (s *socket) writer() {
	defer s.conn.Close()
	ping := time.NewTicker(s.api.Limits.Ping)
	defer ping.Stop()
	broken := false
	put := func(frame any) {
		if broken {
			return
		}
		s.conn.SetWriteDeadline(time.Now().Add(s.api.Limits.Write))
		if err := s.conn.WriteJSON(frame); err != nil {
			broken = true
			s.end(gone)
		}
	}
	for {
		select {
		case frame := <-s.out:
			put(frame)
		case <-ping.C:
			if err := s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.api.Limits.Write)); err != nil {
				broken = true
				s.end(gone)
			}
		case <-s.quit:
			s.farewell(put)
			return
		}
	}
}

// farewell sends what waits, then the last frame and the close code.
func (s *socket) farewell(put func(any)) {
	for {
		select {
		case frame := <-s.out:
			put(frame)
			continue
		default:
		}
		break
	}
	if s.last.frame != nil {
		put(s.last.frame)
	}
	if s.last.code != 0 {
		api.Goodbye(s.conn, s.last.code, s.last.why, s.read)
	}
}

// turnRuns notes how the running turn is cancelled; nil when it has ended.
func (s *socket) turnRuns(cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
}

// runningTurn is what cancels the running turn, nil if none runs. It does nothing to a turn
// that has ended.
func (s *socket) runningTurn() context.CancelFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancel
}
