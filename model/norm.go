package model

import "fmt"

// Norm applies the model's last norm to n rows that the last block put out, in place: rows is
// [n][hidden]. Those are what libraries call the last hidden states.
func (h *Head) Norm(rows []float32, n int) error {
	if n < 0 || len(rows) != n*h.hidden {
		return fmt.Errorf("norm: %d values for %d rows of %d", len(rows), n, h.hidden)
	}
	for n > 0 {
		m := min(n, h.rows)
		if err := h.normChunk(rows[:m*h.hidden], m); err != nil {
			return err
		}
		rows, n = rows[m*h.hidden:], n-m
	}
	return nil
}

func (h *Head) normChunk(rows []float32, n int) error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.dev.Upload(h.x, 0, rows)
	h.dev.Norm(h.x, h.x, n, h.p.Norm)
	h.dev.Download(rows, h.x, 0)
	return h.dev.Sync()
}
