// Package journal keeps the last lines of something that goes on, such as the log of a node, for
// readers who follow it. It is bounded in lines and in bytes, holds no file, and knows nothing of
// what the lines say.
package journal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Line is one entry.
type Line struct {
	ID   string          `json:"id"` // names it among all lines of this and other runs
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Log keeps the last lines. Safe for concurrent use.
type Log struct {
	run      string // names this run of the program: counts begin anew with each
	maxLines int
	maxBytes int
	mu       sync.Mutex // guards all below
	lines    []Line     // oldest first
	bytes    int        // of their data
	next     uint64     // count of the next line
	more     chan struct{}
}

// New makes a log that keeps at most so many lines, and so many bytes of what they say.
func New(lines, bytes int) *Log {
	var run [4]byte
	rand.Read(run[:])
	return &Log{run: hex.EncodeToString(run[:]), maxLines: lines, maxBytes: bytes, next: 1, more: make(chan struct{})}
}

// Add writes a line. What JSON cannot say of data, or takes more than a sixteenth of the room, is
// left out: the line says so.
func (l *Log) Add(at time.Time, kind string, data any) {
	b, err := json.Marshal(data)
	if err != nil || len(b) > l.maxBytes/16 {
		b = []byte(`{"omitted":"too large, or not JSON"}`)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, Line{ID: l.run + "-" + strconv.FormatUint(l.next, 10), Time: at.UTC(), Kind: kind, Data: b})
	l.next++
	l.bytes += len(b)
	drop := 0
	for len(l.lines)-drop > l.maxLines || l.bytes > l.maxBytes {
		l.bytes -= len(l.lines[drop].Data)
		drop++
	}
	if drop > 0 {
		clear(l.lines[:drop]) // append moves the rest to new memory now and then
		l.lines = l.lines[drop:]
	}
	close(l.more)
	l.more = make(chan struct{})
}

// After are the lines behind the one with this id, oldest first, and a channel that is closed
// once there are more. All are behind "", and behind a line of another run; what lies further
// back than the log reaches is lost. ok is false if no log would give such an id.
func (l *Log) After(id string) (lines []Line, more <-chan struct{}, ok bool) {
	run, count := "", uint64(0)
	if id != "" {
		var number string
		run, number, ok = strings.Cut(id, "-")
		n, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || len(run) != 8 {
			return nil, nil, false
		}
		count = n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.next - uint64(len(l.lines)) // count of the first line
	skip := uint64(0)
	if run == l.run && count >= first {
		skip = min(count-first+1, uint64(len(l.lines)))
	}
	return append([]Line(nil), l.lines[skip:]...), l.more, true
}
