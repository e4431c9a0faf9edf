package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
	"whorl/server"
	"whorl/server/blocks"
)

// speeds is the file in which the nodes of a machine remember what their spans compute, so
// that the next start need not measure. A figure counts for what it was measured with alone:
// model, device, threads, storage and the version of the program.
type speeds struct {
	path string
	of   string // all but the length of the span
}

// keptSpeed is one entry.
type keptSpeed struct {
	Inference float64   `json:"inference_rps"`
	Forward   float64   `json:"forward_rps"`
	At        time.Time `json:"at"`
}

const (
	// maxSpeeds bounds the file: the oldest go first.
	maxSpeeds = 256
	// maxSpeedsBytes bounds what is read of it.
	maxSpeedsBytes = 256 << 10
)

// speedsOf is the file in a folder for a model on a device; nil for no folder.
func speedsOf(root string, m *Model) server.Speeds {
	if root == "" {
		return nil
	}
	c := m.Manifest.Class
	return &speeds{filepath.Join(root, "throughput.json"), fmt.Sprintf("%s, %s, %s, %s, kv %s, whorl %s", m.Manifest.UID(), deviceName(m.Device.Info()), c.DType, c.Quant, c.KVDType, BuildVersion)}
}

func (s *speeds) key(n int) string { return fmt.Sprintf("%d blocks of %s", n, s.of) }

// Of is server.Speeds. Who finds nothing waits for those who measure, since two that measure
// at one time find half of what there is; they may also find it for him.
func (s *speeds) Of(ctx context.Context, n int, fresh bool, measure func() (blocks.Rates, error)) (blocks.Rates, bool, error) {
	if x, ok := s.read()[s.key(n)]; ok && !fresh {
		return blocks.Rates{Inference: x.Inference, Forward: x.Forward}, true, nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return blocks.Rates{}, false, context.Cause(ctx)
		}
		slog.Warn("throughput is measured beside others, if there are any", "reason", err)
		unlock = func() {}
	}
	defer unlock()
	if x, ok := s.read()[s.key(n)]; ok && !fresh {
		return blocks.Rates{Inference: x.Inference, Forward: x.Forward}, true, nil
	}
	r, err := measure()
	if err != nil {
		return r, false, err
	}
	if err := s.put(n, r); err != nil {
		slog.Warn("throughput could not be kept for the next run", "reason", err)
	}
	return r, false, nil
}

// Keep is server.Speeds.
func (s *speeds) Keep(n int, r blocks.Rates) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.put(n, r)
}

// lock waits for the lock of the file.
func (s *speeds) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	f, err := sharedfile.Open(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		switch ok, err := sharedfile.Lock(f, sharedfile.Exclusive); {
		case err != nil:
			return nil, errors.Join(err, f.Close())
		case ok:
			return func() { f.Close() }, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// read is what the file says: nothing if it says nothing that makes sense.
func (s *speeds) read() map[string]keptSpeed {
	all := map[string]keptSpeed{}
	st, err := os.Stat(s.path)
	if err != nil || st.Size() > maxSpeedsBytes {
		return all
	}
	b, err := os.ReadFile(s.path)
	if err != nil || json.Unmarshal(b, &all) != nil {
		return map[string]keptSpeed{}
	}
	for key, x := range all {
		if !(x.Inference > 0 && x.Inference < maxSpeed && x.Forward > 0 && x.Forward < maxSpeed) {
			delete(all, key)
		}
	}
	return all
}

// maxSpeed is more than any device computes, in tokens per second through a block.
const maxSpeed = 1e9

// put writes an entry; the lock is held.
func (s *speeds) put(n int, r blocks.Rates) error {
	all := s.read()
	all[s.key(n)] = keptSpeed{r.Inference, r.Forward, time.Now().UTC().Round(time.Second)}
	for len(all) > maxSpeeds {
		oldest := ""
		for key, x := range all {
			if oldest == "" || x.At.Before(all[oldest].At) {
				oldest = key
			}
		}
		delete(all, oldest)
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path, append(b, '\n'), 0o600)
}
