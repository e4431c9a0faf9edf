package wiring

import "context"

// Fetching is how far a command is with what it fetches.
type Fetching struct {
	Done, Total int64   // bytes
	Rate        float64 // bytes a second lately; 0 where nothing comes
	Over        bool    // nothing is fetched any more
}

type fetchingKey struct{}

// WithFetching has transfers below ctx told to show, some times a second, and not to the log.
func WithFetching(ctx context.Context, show func(Fetching)) context.Context {
	return context.WithValue(ctx, fetchingKey{}, show)
}

// showing is what WithFetching was given; nil for nothing.
func showing(ctx context.Context) func(Fetching) {
	show, _ := ctx.Value(fetchingKey{}).(func(Fetching))
	return show
}
