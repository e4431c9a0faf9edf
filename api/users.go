package api

import (
	"context"
	"net/http"
	"net/netip"
	"sync"

	"whorl/swarm"
	"whorl/swarm/budget"
)

// users counts what the sockets of each user hold, so that one cannot lock out the others:
// to the servers all of them are one peer, this node. A user is a key, or an address, or what
// one machine can have of IPv6; all of this machine without keys are one.
type users struct {
	mu      sync.Mutex // guards all below
	sockets map[string]int
	cache   map[cacheOf]cacheHeld
}

type cacheOf struct {
	user  string
	model swarm.UID
}

type cacheHeld struct{ sessions, tokens int }

func newUsers() *users { return &users{sockets: map[string]int{}, cache: map[cacheOf]cacheHeld{}} }

// Sit gives whoever sent a request one more WebSocket, unless most are open; leave gives it
// back. user names them for Hold.
func (a *API) Sit(r *http.Request) (user string, leave func(), err error) {
	user = UserOf(r)
	leave, err = a.users.sit(user, a.caps.Load().Sockets)
	return user, leave, err
}

// Hold lets a session of a user hold tokens of a model's cache, as far as their share goes; give
// gives them back.
func (a *API) Hold(user string, e Engine, tokens int) (give func(), err error) {
	uid := e.Model().UID
	return a.users.take(cacheOf{user, uid}, tokens, a.share(uid))
}

// UserOf names who sent a request: the key that it showed, or an address, or what one machine
// can have of IPv6.
func UserOf(r *http.Request) string {
	if id := OwnerOf(r.Context()); id != "" {
		return id
	}
	return addressOf(r)
}

// OwnerOf is the id of the key that a request showed, "" for none: what one key keeps here no other
// may see.
func OwnerOf(ctx context.Context) string {
	if h := holderOf(ctx); h != nil {
		return h.Key().ID
	}
	return ""
}

// addressOf names where a request came from.
func addressOf(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return budget.Rule{}.Who(addr.Addr()).Peer
}

// sit gives a user one more socket, unless most are open. leave gives it back.
func (u *users) sit(user string, most int) (leave func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := u.sockets[user]; n >= most {
		return nil, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "%d WebSockets are open from your address or with your key, the most that one may have: close some", n)
	}
	u.sockets[user]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.sockets[user]--; u.sockets[user] == 0 {
			delete(u.sockets, user)
		}
	}, nil
}

// take lets a session of a user hold tokens of a model's cache. A first session may be as
// long as servers allow; all of a user's together hold at most so many tokens, 0 for no
// limit. give gives them back.
func (u *users) take(of cacheOf, tokens, most int) (give func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.cache[of]
	if h.sessions > 0 && most > 0 && h.tokens+tokens > most {
		return nil, swarm.Errorf(swarm.CodeTooMany, swarm.Again, "the sessions on WebSockets from your address or with your key hold %d tokens of cache, and %d more would exceed %d, the share of one: close some, or ask for fewer", h.tokens, tokens, most)
	}
	u.cache[of] = cacheHeld{h.sessions + 1, h.tokens + tokens}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		h := u.cache[of]
		if u.cache[of] = (cacheHeld{h.sessions - 1, h.tokens - tokens}); h.sessions == 1 {
			delete(u.cache, of)
		}
	}, nil
}

// share is what one user's sockets may hold of a model's cache, in tokens: a part of what
// all servers together have for the block that has least. 0 if no server is known.
func (a *API) share(model swarm.UID) int {
	for _, v := range a.Directory.Views() {
		if v.Manifest.UID() != model || v.Manifest.Blocks == 0 {
			continue
		}
		each := make([]int64, v.Manifest.Blocks)
		for b, s := range v.Held(swarm.Online) {
			each[b] += s.CacheTotal
		}
		least := each[0]
		for _, n := range each {
			least = min(least, n)
		}
		return int(a.caps.Load().UserCache * float64(least))
	}
	return 0
}
