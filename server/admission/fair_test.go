package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// seen is what a trace knows of a session, kept apart from the controller's book.
type seen struct {
	peer, group   string
	pages         int
	asked, began  time.Time // began: zero while it waits
	last          time.Time // zero: no rows yet
	cost, service time.Duration
}

// trace runs random clients against a controller and checks every decision.
type trace struct {
	*desk
	cfg      Config
	sessions map[ID]*seen
	order    []ID
}

func (x *trace) holds(by func(*seen) string) (held map[string]int, all int) {
	held = map[string]int{}
	for _, s := range x.sessions {
		n := 0
		if !s.began.IsZero() {
			n = s.pages
		}
		held[by(s)] += n
		all += n
	}
	return held, all
}

func byPeer(s *seen) string  { return s.peer }
func byGroup(s *seen) string { return s.group }

// parked checks that a session may be parked.
func (x *trace) parked(id ID) {
	s := x.sessions[id]
	if s.began.IsZero() {
		return // it only stood in line
	}
	groups, _ := x.holds(byGroup)
	peers, _ := x.holds(byPeer)
	members := map[string]bool{}
	for _, o := range x.sessions {
		if o.group == s.group {
			members[o.peer] = true
		}
	}
	places := map[string]int{}
	for _, o := range x.sessions {
		if !o.began.IsZero() {
			places[o.group]++
			places["of "+o.peer]++
		}
	}
	over := groups[s.group]*len(groups) > x.cfg.Pages || peers[s.peer]*len(members) > max(groups[s.group], x.cfg.Pages/len(groups)) ||
		places[s.group]*len(groups) > x.cfg.Sessions || places["of "+s.peer]*len(members) > max(places[s.group], x.cfg.Sessions/len(groups))
	doing, age := x.doing[id], x.now.Sub(s.began)
	switch {
	case doing == Running:
		x.t.Fatalf("session %d is parked while it computes", id)
	case s.last.IsZero() && doing == Quiet && age >= x.cfg.Lease:
	case age < x.cfg.Service+min(2*s.cost, 30*time.Second):
		x.t.Fatalf("session %d is parked %v after its grant, its rows cost %v", id, age, s.cost)
	case over:
	case doing != Quiet || s.last.IsZero() || x.now.Sub(s.last) < x.cfg.Rest:
		x.t.Fatalf("session %d, in use, is parked though %s holds %d and %s %d of %d among %d groups", id, s.peer, peers[s.peer], s.group, groups[s.group], x.cfg.Pages, len(groups))
	}
}

func (x *trace) end(id ID) {
	x.c.Leave(id)
	delete(x.sessions, id)
	delete(x.doing, id)
}

// settle carries out decisions and checks them.
func (x *trace) settle() {
	for {
		d := x.c.Next(x.now, x.activity)
		for _, id := range d.Park {
			x.parked(id)
		}
		for _, id := range d.Park {
			x.end(id)
		}
		switch {
		case d.Grant != 0:
			s := x.sessions[d.Grant]
			s.began = x.now
			if _, all := x.holds(byPeer); all > x.cfg.Pages {
				x.t.Fatalf("%d pages of %d are granted", all, x.cfg.Pages)
			}
			peers, _ := x.holds(byPeer)
			groups, _ := x.holds(byGroup)
			if peers[s.peer] > x.cfg.Peer.Pages || s.group != "peer "+s.peer && groups[s.group] > x.cfg.Prefix.Pages {
				x.t.Fatalf("%s holds %d pages, %s %d: caps are %d and %d", s.peer, peers[s.peer], s.group, groups[s.group], x.cfg.Peer.Pages, x.cfg.Prefix.Pages)
			}
		case d.Refuse != 0:
			if w := x.now.Sub(x.sessions[d.Refuse].asked); w > max(x.cfg.Wait, x.cfg.Patience)+time.Second {
				x.t.Fatalf("session %d waited %v", d.Refuse, w)
			}
			x.end(d.Refuse)
		case d.Park == nil:
			return
		}
	}
}

// Whatever clients do: caps hold, no page is granted twice, nobody is parked while it
// computes, within its service, or in use within a fair share, and the line ends.
func TestRandomTraces(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		cfg := Config{
			Pages: 8 + r.IntN(60), Sessions: 4 + r.IntN(40), Wait: time.Duration(r.IntN(20)) * time.Second,
			Patience: 3 * time.Second, Lease: 10 * time.Second, Service: 2 * time.Second, Rest: time.Duration(5+r.IntN(60)) * time.Second,
		}
		cfg.Peer = Cap{Sessions: 1 + r.IntN(cfg.Sessions), Pages: 1 + r.IntN(cfg.Pages)}
		cfg.Prefix = Cap{Sessions: 1 + r.IntN(cfg.Sessions), Pages: 1 + r.IntN(cfg.Pages)}
		x := &trace{desk: newDesk(t, func(c *Config) { *c = cfg }), cfg: cfg, sessions: map[ID]*seen{}}
		for range 1000 {
			x.now = x.now.Add(time.Duration(r.IntN(800)) * time.Millisecond)
			var some ID // any session
			for id := range x.sessions {
				if some == 0 || id < some {
					some = id
				}
			}
			some += ID(r.IntN(len(x.sessions) + 1))
			s := x.sessions[some]
			switch what := r.IntN(10); {
			case what < 4 || s == nil:
				p := r.IntN(12)
				claim := Claim{Peer: fmt.Sprint("peer ", p), Tokens: (1 + r.IntN(cfg.Pages)*r.IntN(2)*r.IntN(2)/2 + r.IntN(3)) * page, Wait: time.Duration(r.IntN(2)*r.IntN(30)) * time.Second}
				if p > 3 {
					claim.Prefix = fmt.Sprint("net ", p%3)
				}
				x.next++
				park, err := x.c.Ask(x.now, x.next, claim, x.activity)
				if err == nil {
					x.sessions[x.next] = &seen{peer: claim.Peer, group: claim.group(), pages: claim.Pages(), asked: x.now}
				}
				for _, id := range park {
					x.parked(id)
				}
				for _, id := range park {
					x.end(id)
				}
			case what < 8:
				if cost := time.Duration(r.IntN(300)) * time.Millisecond; !s.began.IsZero() {
					s.last, s.cost = x.now, s.cost+cost
					x.doing[some] = Activity(r.IntN(3))
					x.c.Computed(x.now, some, cost, true)
				}
			case what < 9:
				x.doing[some] = Quiet
			default:
				x.end(some)
			}
			x.settle()
		}
		for id := range x.sessions {
			x.end(id)
		}
		if len(x.c.entries) != 0 {
			t.Fatalf("seed %d: %d sessions are left", seed, len(x.c.entries))
		}
	}
}

// swarm of clients in virtual time: attackers that want all there is, with many identities
// in few prefixes, and honest users that want their share.
type user struct {
	peer, prefix string
	pages        int // of a session
	most         int // sessions at once
	own          map[ID]bool
	tries        func(r *rand.Rand) bool // whether it acts in this tick
	rotates      bool                    // closes sessions and opens others
	rests        bool                    // computes no rows
}

// Attackers with k identities in p prefixes hold no more than the share of p prefixes while
// others wait, whether they sit still, compute now and then, or come and go; and nobody who
// keeps to a share is parked while in use.
func TestIdentitiesBuyNothing(t *testing.T) {
	for _, c := range []struct {
		name           string
		identities     int
		prefixes       int
		rotates, rests bool
		wait           time.Duration
		pages          int
	}{
		{"sessions of a page, no rows", 40, 1, false, true, 0, 1},
		{"sessions of a page, no rows, long waits", 40, 2, false, true, 10 * time.Minute, 1},
		{"large ones with long waits", 8, 2, false, true, 10 * time.Minute, 30},
		{"rows now and then", 40, 2, false, false, 0, 2},
		{"come and go", 40, 2, true, true, 0, 2},
		{"come and go with rows", 40, 2, true, false, time.Minute, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			const pages, honest = 60, 3
			share := pages / (honest + c.prefixes)
			r := rand.New(rand.NewPCG(7, 7))
			d := newDesk(t, func(cfg *Config) {
				cfg.Pages, cfg.MaxTokens, cfg.Sessions = pages, 0, 60
				cfg.Peer, cfg.Prefix = Cap{20, pages / 2}, Cap{32, pages * 3 / 4}
			})
			var users []*user
			for i := range c.identities {
				users = append(users, &user{peer: fmt.Sprint("evil ", i), prefix: fmt.Sprint("net ", i%c.prefixes), pages: c.pages, most: 16, own: map[ID]bool{}, rotates: c.rotates, rests: c.rests})
			}
			for i := range honest {
				users = append(users, &user{peer: fmt.Sprint("user ", i), pages: 1, most: 20, own: map[ID]bool{}})
			}
			owner := map[ID]*user{}
			evil := func(u *user) bool { return u.prefix != "" }
			holds := func(u *user) int {
				n := 0
				for id := range u.own {
					if e := d.c.find(id); !e.waits() {
						n += e.pages
					}
				}
				return n
			}
			drop := func(id ID) {
				delete(owner[id].own, id)
				delete(owner, id)
			}
			carry := func(n Decision) {
				for _, id := range n.Park {
					if u := owner[id]; !evil(u) && !d.c.find(id).waits() && holds(u) <= share {
						t.Errorf("a session of %s is parked, which holds %d", u.peer, holds(u))
					}
					d.c.Leave(id)
					drop(id)
				}
				if n.Refuse != 0 {
					d.c.Leave(n.Refuse)
					drop(n.Refuse)
				}
			}
			settle := func() {
				for {
					n := d.c.Next(d.now, d.activity)
					if carry(n); n.Grant == 0 && n.Park == nil && n.Refuse == 0 {
						return
					}
				}
			}
			var ticks, evils, least float64
			for tick := range 4 * 80 {
				d.now = d.now.Add(250 * time.Millisecond)
				r.Shuffle(len(users), func(i, j int) { users[i], users[j] = users[j], users[i] })
				for _, u := range users {
					if !evil(u) && (tick < 40 || tick%4 != 0) { // attackers are there first, and quicker
						continue
					}
					for id := range u.own {
						e := d.c.find(id)
						if e.waits() {
							continue
						}
						if u.rotates && r.IntN(4) == 0 {
							d.c.Leave(id)
							drop(id)
						} else if !u.rests {
							d.c.Computed(d.now, id, 20*time.Millisecond, true)
						}
					}
					for len(u.own) < u.most {
						d.next++
						wait := time.Duration(0)
						if evil(u) {
							wait = c.wait
						}
						park, err := d.c.Ask(d.now, d.next, Claim{Peer: u.peer, Prefix: u.prefix, Tokens: u.pages * page, Wait: wait}, d.activity)
						carry(Decision{Park: park})
						if err != nil {
							break
						}
						owner[d.next] = u
						u.own[d.next] = true
						settle()
						if _, there := owner[d.next]; !there || d.c.find(d.next).waits() {
							break
						}
					}
				}
				settle()
				if tick < 4*40 {
					continue
				}
				ticks++
				worst := pages
				for _, u := range users {
					if evil(u) {
						evils += float64(holds(u))
					} else {
						worst = min(worst, holds(u))
					}
				}
				least += float64(worst)
			}
			t.Logf("of %d pages attackers hold %.1f in the mean, their share is %d; the honest user with the least has %.1f of %d", pages, evils/ticks, share*c.prefixes, least/ticks, share)
			if evils/ticks > float64(share*c.prefixes)+1 || least/ticks < float64(share)-1 {
				t.Error("free identities buy cache")
			}
		})
	}
}
