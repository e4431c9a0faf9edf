package wiring

import (
	"context"
	"log/slog"
	"time"

	"whorl/api"
	"whorl/internal/keys"
)

// inDatabase is --keys for those in --database-url.
const inDatabase = "database"

const (
	KeysHelp = "`FILE` of the keys that callers of --http must show (whorl keys), or \"database\" for those in --database-url; beyond loopback --admin takes them too"
	// keyLooks is how often the book of keys is looked at, and keyNotes how often the last use is noted in it.
	keyLooks, keyNotes = 3 * time.Second, time.Minute
	// KeyTime bounds a look.
	KeyTime = 10 * time.Second
)

// closedTo tells whether a listener must ask for keys: it is not of this machine alone.
func closedTo(addr string) bool { return addr != Off && api.CheckListen(addr, "", false) != nil }

// OpenBook opens the book of keys; done ends its use.
func OpenBook(where, databaseURL string) (book keys.Book, done func(), err error) {
	if where != inDatabase {
		f, err := keys.OpenFile(where)
		if err != nil {
			return nil, nil, Usagef("--keys: %w", err)
		}
		return f, func() {}, nil
	}
	if databaseURL == "" {
		return nil, nil, Usagef("--keys database: give --database-url too")
	}
	p, err := openDatabase(databaseURL)
	if err != nil {
		return nil, nil, err
	}
	return p.Keys(), p.Close, nil
}

// keyRing is what the node's listeners hold callers' keys against; nil for none. It follows the
// book until ctx ends.
func (n *Node) keyRing(ctx context.Context, hf *HTTPOptions) (*keys.Ring, error) {
	if hf.Keys == "" {
		return nil, nil
	}
	book, done, err := OpenBook(hf.Keys, hf.DatabaseURL)
	if err != nil {
		return nil, err
	}
	ring := keys.NewRing(book)
	look, cancel := context.WithTimeout(ctx, KeyTime)
	defer cancel()
	known := false // a node that knew its keys once goes on with them
	failed := func(err error) {
		if known = known || err == nil; err == nil || !known {
			n.check("keys", err)
		}
		if err != nil {
			slog.Error("the book of keys cannot be used: keys that are known stay good", "reason", err)
		} else {
			slog.Info("the book of keys can be used again")
		}
	}
	if err = ring.Refresh(look); err != nil {
		failed(err) // a database may come later
	} else if known = true; len(ring.Holders()) == 0 {
		slog.Warn("there are no keys yet, so nobody can generate here: make one with whorl keys add NAME", "admin", n.admin.url())
	}
	n.background.Go(func() {
		defer done()
		ring.Keep(ctx, keyLooks, keyNotes, err, failed)
	})
	return ring, nil
}
