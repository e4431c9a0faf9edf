package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"whorl/internal/keys"
)

// CheckListen refuses an address beyond loopback without a token or keys: whoever reaches a
// listener without one may use all of it. It refuses a token that could be guessed. addr is
// HOST:PORT; an empty host is all.
func CheckListen(addr, token string, keys bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT, such as 127.0.0.1:8300", addr)
	}
	if token == "" && !keys && !loopback(host) {
		return fmt.Errorf("listen address %q can be reached from other machines: give a token or keys, or listen on 127.0.0.1", addr)
	}
	if n := utf8.RuneCountInString(token); n > 0 && n < MinToken {
		return fmt.Errorf("a token of %d characters can be guessed: take at least %d, such as the output of openssl rand -hex 16", n, MinToken)
	}
	return nil
}

// loopback tells whether a host, name or address, is this machine alone.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// site is one listener's rules.
type site struct {
	Listener
	admin bool
}

// hostAllowed refuses names that are not the listener's. A page of another site can make
// its own name resolve to this machine (DNS rebinding); the browser then takes us for that
// site, but the Host header still says its name.
func (s *site) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	if loopback(host) || slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap() == local.AddrPort().Addr().Unmap()
}

// hostname is a Host header without its port and brackets.
func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

// changes tells whether a request can do something, so that another site must not make a
// browser send it.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions || websocket.IsWebSocketUpgrade(r)
}

// sameOrigin tells whether a request comes from a page of this very listener, or from no
// page at all.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// guest tells whether pages of the request's origin may use the inference routes:
// configured sites, and pages of this machine.
func (s *site) guest(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(s.Origins, "*") || slices.ContainsFunc(s.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && loopback(u.Hostname())
}

// tokenOf is the token a request shows, in a header, or as a sub-protocol of a WebSocket: browsers
// cannot set headers there. Clients of Anthropic's API have a header of their own for it.
func tokenOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if token := strings.TrimSpace(r.Header.Get("X-Api-Key")); token != "" {
		return token
	}
	if websocket.IsWebSocketUpgrade(r) {
		for _, p := range websocket.Subprotocols(r) {
			if token, ok := strings.CutPrefix(p, "bearer."); ok {
				return token
			}
		}
	}
	return ""
}

// tokenAllowed compares with the listener's own token, in constant time, whatever the lengths.
func (s *site) tokenAllowed(r *http.Request) bool {
	want, got := sha256.Sum256([]byte(s.Token)), sha256.Sum256([]byte(tokenOf(r)))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// closed tells whether a listener is only for who shows a token or a key.
func (s *site) closed() bool { return s.Token != "" || s.Keys }

// who finds the key that a request shows; nil where it needs none and shows none.
func (a *API) who(s *site, r *http.Request) (*keys.Holder, error) {
	if s.Token != "" && s.tokenAllowed(r) {
		return nil, nil
	}
	err := keys.ErrUnknown
	if a.Keys != nil {
		var h *keys.Holder
		if h, err = a.Keys.Find(tokenOf(r), time.Now()); err == nil {
			return h, nil
		}
	}
	switch {
	case !s.closed():
		return nil, nil // clients send tokens that mean nothing
	case errors.Is(err, keys.ErrExpired):
		return nil, Refused(CodeNoToken, "%v: ask the operator for a new one", err)
	case s.Keys:
		return nil, Refused(CodeNoToken, "this listener needs a key that its operator made: send Authorization: Bearer KEY, or X-Api-Key: KEY")
	}
	return nil, Refused(CodeNoToken, "this listener needs a token: send Authorization: Bearer TOKEN, or X-Api-Key: TOKEN")
}

// authorise decides whether a request may reach an operation, and finds the key that it shows.
func (a *API) authorise(s *site, r *http.Request, to rule) (*keys.Holder, error) {
	switch {
	case to.listener == "admin" && !s.admin:
		return nil, Refused(CodeNoRoute, "%s %s is only on the admin listener", r.Method, r.URL.Path)
	case to.listener == "public" && s.admin:
		return nil, Refused(CodeNoRoute, "%s is only on the public listener", r.URL.Path)
	case changes(r) && !sameOrigin(r) && !(to.guests && s.guest(r)):
		return nil, Refused(CodeForbiddenOrigin, "pages of %q may not do this here", Clip(r.Header.Get("Origin")))
	case !to.token:
		return nil, nil
	}
	if s.closed() {
		if err := a.mayTry(r); err != nil {
			return nil, err
		}
	}
	h, err := a.who(s, r)
	if h == nil || err != nil {
		return nil, err
	}
	if k := h.Key(); !k.May(to.scope) {
		return nil, Refused(CodeScope, "the key %q does not allow this: it needs the scope %s", k.Name, to.scope)
	}
	return h, nil
}

// cors tells browsers which pages may read the answer: all of them what the swarm
// publishes anyway, guests the inference routes, none the rest.
func (s *site) cors(w http.ResponseWriter, r *http.Request, to rule) {
	h, origin := w.Header(), r.Header.Get("Origin")
	switch {
	case origin == "" || s.admin || to.listener == "":
		return
	case !to.token:
		h.Set("Access-Control-Allow-Origin", "*")
	case to.guests:
		h.Add("Vary", "Origin")
		if !sameOrigin(r) && !s.guest(r) {
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
	default:
		return
	}
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, X-Warning, X-Whorl-Verified, Retry-After, "+rateHeaders)
}
