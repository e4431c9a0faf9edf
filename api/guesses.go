package api

import (
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"whorl/swarm"
)

// MinToken is the least length of a token in characters: no rate of guesses finds one that
// was drawn at random.
const MinToken = 16

// Wrong tokens that one user may show: some at once, and then one in a while. A person who
// mistypes stays below; a program that tries is told to wait.
const (
	guessBurst = 20
	guessEvery = 3 * time.Second
	// guessers bounds how many users are remembered; beyond, those who are new share one
	// allowance.
	guessers = 4096
)

// guesses counts wrong tokens by user. Those of this machine are not counted: behind a proxy
// everybody is, and one could lock out all.
type guesses struct {
	mu   sync.Mutex // guards all below
	user map[string]*rate.Limiter
	rest *rate.Limiter
}

func newGuesses() *guesses {
	return &guesses{user: map[string]*rate.Limiter{}, rest: newLimiter()}
}

func newLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(guessEvery), guessBurst) }

// wait is how long a user must wait before another token is looked at, right or wrong.
func (g *guesses) wait(user string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.user[user]
	if l == nil && len(g.user) >= guessers {
		l = g.rest
	}
	if l == nil || l.TokensAt(now) >= 1 {
		return 0
	}
	return time.Duration((1 - l.TokensAt(now)) * float64(guessEvery))
}

// wrong counts a wrong token.
func (g *guesses) wrong(user string, now time.Time) {
	if user == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.user[user]
	if l == nil && len(g.user) >= guessers {
		for u, old := range g.user { // whoever has not tried lately
			if old.TokensAt(now) >= guessBurst {
				delete(g.user, u)
			}
		}
	}
	if l == nil {
		if l = g.rest; len(g.user) < guessers {
			l = newLimiter()
			g.user[user] = l
		}
	}
	l.AllowN(now, 1)
}

// mayTry refuses a request that shows a token too soon after wrong ones.
func (a *API) mayTry(r *http.Request) error {
	if wait := a.guesses.wait(addressOf(r), time.Now()); wait > 0 && tokenOf(r) != "" {
		return swarm.Errorf(swarm.CodeTooMany, swarm.Again, "too many wrong tokens came from your address: try again in %.0f s", math.Ceil(wait.Seconds()))
	}
	return nil
}
