package api

import (
	"context"
	"net/http"
	"sync"
)

// Cold is an Engine whose model may be out of memory: it is listed, tells what the swarm says of
// it, and can be asked nothing else.
type Cold interface {
	Engine
	// Wake brings the model into memory, which may take a while, and keeps it there until done
	// is called.
	Wake(ctx context.Context) (e Engine, done func(), err error)
}

// awake is an engine that can be asked, until the request of ctx has ended.
func awake(ctx context.Context, e Engine) (Engine, error) {
	switch x := e.(type) {
	case adapted:
		inner, err := awake(ctx, x.Engine)
		x.Engine = inner
		return x, err
	case Cold:
		warm, done, err := x.Wake(ctx)
		if err != nil {
			return nil, err
		}
		if u, ok := ctx.Value(usesKey{}).(*uses); ok {
			u.add(done)
		} else {
			context.AfterFunc(ctx, done)
		}
		return warm, nil
	}
	return e, nil
}

type usesKey struct{}

// uses are the models that a request holds in memory. Its context may end before its handler,
// which still computes with them then.
type uses struct {
	mu   sync.Mutex // guards done
	done []func()
}

func (u *uses) add(done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = append(u.done, done)
}

// counted lets go of a request's models once it is over.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := new(uses)
		defer func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			for _, done := range u.done {
				done()
			}
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), usesKey{}, u)))
	})
}
