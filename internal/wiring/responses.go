package wiring

import (
	"context"
	"log/slog"
	"time"

	"whorl/internal/answers"
	"whorl/store"
)

// inMemory is --responses for those that end with the process.
const inMemory = "memory"

// shelfLooks is how often what is too old is forgotten.
const shelfLooks = time.Hour

// ResponsesHelp is what --responses does.
const ResponsesHelp = "where answers of /v1/responses are kept for those who go on from them: `memory`, database (the default where there is --database-url) or off"

// shelfOf is where the node keeps answers. It is there until the listeners have ended, since an answer that
// ends last is kept too.
func (n *Node) shelfOf(ctx context.Context, hf *HTTPOptions) (answers.Shelf, error) {
	where := hf.Responses
	switch {
	case where == Off || hf.HTTP == Off:
		return answers.None{}, nil
	case where == "" && hf.DatabaseURL != "":
		where = inDatabase
	}
	var shelf answers.Shelf = answers.NewMemory(answers.MemoryLimits())
	done := func() {}
	if where == inDatabase {
		p, err := openDatabase(hf.DatabaseURL)
		if err != nil {
			return nil, err
		}
		shelf, done = p.Answers(answers.DatabaseLimits()), p.Close
	}
	n.background.Go(func() {
		defer done()
		looks := time.NewTicker(shelfLooks)
		defer looks.Stop()
		for {
			select {
			case <-n.over:
				return
			case now := <-looks.C:
				if err := shelf.Prune(ctx, now); err != nil {
					slog.Warn("old answers were not forgotten", "reason", err)
				}
			}
		}
	})
	return shelf, nil
}

// openDatabase prepares the use of --database-url.
func openDatabase(url string) (*store.Postgres, error) {
	p, err := store.OpenPostgres(url, store.DefaultLimits())
	if err != nil {
		return nil, Usagef("--database-url: %w: want postgres://USER:PASSWORD@HOST:PORT/NAME", err)
	}
	return p, nil
}
