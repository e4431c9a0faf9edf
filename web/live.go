package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"whorl/web/view"
)

const (
	// reconnect is what browsers wait before they come back to a stream that broke.
	reconnect = 2 * time.Second
	// writeWait bounds a write to a reader that does not read.
	writeWait = 10 * time.Second
)

// update is an event of a page's stream.
type update struct {
	Now      int64             `json:"now"` // of the server, in unix milliseconds
	Stale    bool              `json:"stale"`
	Sections map[string]string `json:"sections,omitempty"` // HTML by id: those that changed
}

// stream sends the sections of a page: all of them first, so that a page that lost its
// stream misses nothing, then those that changed. A refresh without a change still sends an
// event, by which the page knows that it is not stale. A page that is not there has no
// stream; one whose subject vanishes meanwhile is told so in its first section.
func (s *Site) stream(make pager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.streams.Add(1) > int64(s.cfg.Streams) {
			s.streams.Add(-1)
			w.Header().Set("Retry-After", "30")
			http.Error(w, "too many pages are open: this one is not live", http.StatusServiceUnavailable)
			return
		}
		defer s.streams.Add(-1)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies must not hold events back
		out := http.NewResponseController(w)
		sent := map[string][sha256.Size]byte{}
		for first := true; ; first = false {
			snap := s.now.Load()
			page, status := make(r, snap)
			if status != http.StatusOK && first {
				w.WriteHeader(http.StatusNoContent) // tells the browser not to come back
				return
			}
			text, err := event(r, snap, page, sent)
			if err != nil {
				s.log.Error("dashboard: event not rendered", "path", r.URL.Path, "error", err)
				return
			}
			if first {
				text = append([]byte("retry: "+strconv.FormatInt(reconnect.Milliseconds(), 10)+"\n"), text...)
			}
			out.SetWriteDeadline(time.Now().Add(writeWait)) // not every writer can; then the server's timeouts hold
			if _, err := w.Write(text); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
			select {
			case <-snap.next:
			case <-s.ended:
				return
			case <-r.Context().Done():
				return
			}
		}
	}
}

// event renders what changed since the last one.
func event(r *http.Request, snap *snapshot, page *view.Page, sent map[string][sha256.Size]byte) ([]byte, error) {
	u := update{Now: page.Now.UnixMilli(), Stale: page.Stale, Sections: map[string]string{}}
	for _, section := range page.All() {
		var html bytes.Buffer
		if err := view.Fragment(section).Render(r.Context(), &html); err != nil {
			return nil, fmt.Errorf("section %s: %w", section.ID, err)
		}
		if sum := sha256.Sum256(html.Bytes()); sent[section.ID] != sum {
			sent[section.ID] = sum
			u.Sections[section.ID] = html.String()
		}
	}
	data, err := json.Marshal(u) // one line, and < is escaped
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "id: %d\ndata: %s\n\n", snap.seq, data), nil
}
