package server

import (
	"context"
	"math"
	"time"
)

// reporter logs what was computed, every Config.StatsEvery.
func (s *Server) reporter(ctx context.Context) {
	t := time.NewTicker(s.cfg.StatsEvery)
	defer t.Stop()
	var last batches
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.mu.Lock()
			now, sessions, cache := s.batch, len(s.byKey), s.cacheStatusLocked()
			s.mu.Unlock()
			s.log.Info("statistics", append(now.since(&last, s.cfg.StatsEvery), "sessions", sessions,
				"cache_used_tokens", cache.UsedTokens, "cache_tokens", cache.TotalTokens, "waiting_for_cache", cache.Waiting)...)
			last = now
		}
	}
}

// since is what was computed in so much time after an earlier count, as pairs for a log. A
// row is one position of one session through its blocks.
func (b *batches) since(last *batches, took time.Duration) []any {
	steps, rows := b.steps-last.steps, b.rows-last.rows
	by := func(n uint64, of float64) float64 { return math.Round(100*float64(n)/of) / 100 }
	mean := func(n uint64) float64 { return by(n, float64(max(steps, 1))) }
	return []any{
		"seconds", took.Seconds(), "steps", steps, "steps_s", by(steps, took.Seconds()), "rows_s", by(rows, took.Seconds()),
		"prompt_rows", b.prefill - last.prefill, "mean_batch_sessions", mean(b.sessions - last.sessions), "mean_batch_rows", mean(rows),
	}
}
