package store

// ring holds the newest limit rows in the order they came.
type ring[T any] struct {
	limit int
	rows  []T // grows up to limit, then wraps
	first int // index of the oldest
}

func newRing[T any](limit int) ring[T] { return ring[T]{limit: limit} }

func (r *ring[T]) len() int { return len(r.rows) }

// at is the i-th row, the oldest being 0.
func (r *ring[T]) at(i int) T { return r.rows[(r.first+i)%len(r.rows)] }

func (r *ring[T]) push(v T) {
	switch {
	case r.limit <= 0:
	case len(r.rows) < r.limit:
		r.rows = append(r.rows, v) // first is 0 until it is full
	default:
		r.rows[r.first] = v
		r.first = (r.first + 1) % r.limit
	}
}

// drop removes rows, keeping the order of the others.
func (r *ring[T]) drop(gone func(T) bool) {
	kept := make([]T, 0, len(r.rows))
	for i := range r.rows {
		if v := r.at(i); !gone(v) {
			kept = append(kept, v)
		}
	}
	r.rows, r.first = kept, 0
}
