package sysmem

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Pressure is how short memory is.
type Pressure struct {
	Left int64 // bytes that can still be taken before somebody is ended for it
	Of   int64 // bytes of the limit that leaves the least; without one, of the system
	// Limit is what leaves no more, for people; "": nothing but the system's memory.
	Limit string
	// Stalled is the share of the last ten seconds, 0 to 1, in which everybody who had
	// something to do waited for memory; 0 where the system does not say.
	Stalled float64
}

// Watcher tells of it again and again. Which control groups the process is in is read once.
type Watcher struct {
	root        fs.FS
	hierarchies []hierarchy
}

// NewWatcher reads the files of Linux below root, which is that of the system.
func NewWatcher(root fs.FS) *Watcher {
	mounts, _ := fs.ReadFile(root, "proc/self/mountinfo")
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	return &Watcher{root, hierarchies(string(mounts), string(groups))}
}

// ErrUnwatched is what a system gives that tells nothing of this kind.
var ErrUnwatched = errors.New("memory is not watched on this system")

// Read tells how things are now.
func (w *Watcher) Read() (Pressure, error) {
	if w == nil {
		return Pressure{}, ErrUnwatched
	}
	l, err := w.left()
	if err != nil {
		return Pressure{}, err
	}
	return Pressure{Left: l.bytes, Of: l.of, Limit: l.name(), Stalled: w.stalled()}, nil
}

// stalled is what the process's own group says or, where that says nothing, the system.
func (w *Watcher) stalled() float64 {
	for i := range w.hierarchies {
		if h := &w.hierarchies[i]; h.stalls != "" {
			if text, err := fs.ReadFile(w.root, strings.TrimPrefix(path.Join(h.mount, h.group, h.stalls), "/")); err == nil {
				return fullStalls(string(text))
			}
		}
	}
	text, _ := fs.ReadFile(w.root, "proc/pressure/memory")
	return fullStalls(string(text))
}

// fullStalls reads the line "full avg10=1.25 avg60=0.50 ...", in percent.
func fullStalls(text string) float64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "full" {
			continue
		}
		percent, ok := strings.CutPrefix(f[1], "avg10=")
		if v, err := strconv.ParseFloat(percent, 64); ok && err == nil && v >= 0 && v <= 100 {
			return v / 100
		}
	}
	return 0
}
