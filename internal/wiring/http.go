package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"whorl/swarm"
)

// Limits of HTTP connections. Requests that generate take long, so only headers and
// silence are limited here; api limits bodies and frames.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// lastWords is how long running requests may go on once the node ends.
	lastWords = 2 * time.Second
)

// listener is an HTTP listener that has its port before anything else of the node is
// made, so that a port in use costs nothing.
type listener struct {
	net.Listener
	server *http.Server
	cancel context.CancelCauseFunc // ends the contexts of running requests
	done   chan struct{}           // closed when serving has ended
}

// listen takes the port; nil if addr is off.
func listen(flag, addr string) (*listener, error) {
	if addr == Off {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for --%s: %w: choose another address, or --%s 127.0.0.1:0 for a free port", flag, err, flag)
	}
	return &listener{Listener: l, done: make(chan struct{})}, nil
}

// serve answers requests until Close. failed is called if the listener breaks.
func (l *listener) serve(h http.Handler, failed func(error)) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	l.cancel = cancel
	l.server = &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	go func() {
		err := l.server.Serve(l.Listener)
		if !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("http listener %s: %w", l.Addr(), err))
		}
		close(l.done)
	}()
}

// url is where a browser of this machine finds the listener; "" if it is off.
func (l *listener) url() string {
	if l == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// end, which may be called again, takes no more requests, gives running ones a little time and then ends them, those
// on WebSockets included.
func (l *listener) end() {
	switch {
	case l == nil:
		return
	case l.server == nil:
		l.Listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		slog.Debug("requests were cut short", "listener", l.Addr(), "reason", err)
	}
	l.cancel(swarm.Errorf(swarm.CodeDraining, swarm.Elsewhere, "the node stops"))
	l.server.Close()
	<-l.done
}

// endAll ends listeners at once.
func endAll(all ...*listener) {
	var wg sync.WaitGroup
	for _, l := range all {
		wg.Go(l.end)
	}
	wg.Wait()
}
