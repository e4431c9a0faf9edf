package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"whorl/internal/atomicfile"
	"whorl/swarm"
)

// Bounds of the file, in bytes. What is written always fits, however its texts are escaped.
const (
	fileVersion = 1
	maxFile     = 8 << 20 // bytes
	maxResult   = 8 << 10
	maxText     = 1 << 10
	maxAbout    = 4
)

// saved is an operation in the file.
type saved struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Group    string            `json:"group"`
	Final    bool              `json:"final,omitempty"`
	About    map[string]string `json:"about,omitempty"`
	Key      string            `json:"key,omitempty"`
	Of       string            `json:"of,omitempty"`
	State    State             `json:"state"`
	Began    time.Time         `json:"began"`
	Ended    time.Time         `json:"ended,omitzero"`
	Progress *Progress         `json:"progress,omitempty"`
	Result   json.RawMessage   `json:"result,omitempty"`
	Code     swarm.Code        `json:"code,omitempty"` // of the error
	Verdict  swarm.Verdict     `json:"verdict,omitempty"`
	Message  string            `json:"message,omitempty"`
}

type file struct {
	Version    int     `json:"version"`
	Operations []saved `json:"operations"`
}

// Open is New with the operations of the runs before, and keeps all in the file at path; "" is New.
// What ran when the last process ended has failed with ErrOver, unless Continue goes on with it. A
// file that cannot be read costs what was in it, and is put aside: no node stays down for it.
func Open(ctx context.Context, path string, changed func(Operation)) *Set {
	s := New(ctx, changed)
	if path == "" {
		return s
	}
	all, err := read(path)
	if err != nil {
		slog.Warn("the operations of earlier runs cannot be read: they are forgotten", "file", path, "aside", path+".broken",
			"reason", errors.Join(err, os.Rename(path, path+".broken")))
	}
	for _, o := range all {
		e := &entry{Operation: o, next: make(chan struct{}), cancel: func(error) {}}
		if o.State == Running {
			e.State, e.Err, e.Ended, e.cut = Failed, ErrOver, time.Now(), true
		}
		s.all = append(s.all, e)
	}
	s.save = func(list []Operation) {
		if err := write(path, list); err != nil {
			slog.Warn("operations cannot be kept: the node forgets them when it ends", "file", path, "reason", err)
		}
	}
	return s
}

func read(path string) ([]Operation, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return decode(data)
}

func write(path string, list []Operation) error {
	data, err := encode(list)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}

// encode leaves results out that are too large or no JSON, and cuts long texts.
func encode(list []Operation) ([]byte, error) {
	out := file{Version: fileVersion}
	for _, o := range list {
		s := saved{ID: o.ID, Kind: o.Kind, Group: o.Group, Final: o.Final, Key: o.Key, Of: o.Of, State: o.State, Began: o.Began, Ended: o.Ended}
		if len(o.About) > 0 {
			s.About = map[string]string{}
			for k, v := range o.About {
				s.About[k] = clip(v)
			}
		}
		if o.Progress != (Progress{}) {
			p := o.Progress
			p.Note = clip(p.Note)
			s.Progress = &p
		}
		if o.Result != nil {
			if b, err := json.Marshal(o.Result); err == nil && len(b) <= maxResult {
				s.Result = b
			}
		}
		if o.Err != nil {
			e := swarm.AsError(o.Err)
			s.Code, s.Verdict, s.Message = e.Code, e.Verdict, clip(e.Message)
		}
		out.Operations = append(out.Operations, s)
	}
	return json.Marshal(out)
}

func clip(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// decode reads what encode wrote, of whichever run: at most kept operations, the newest.
func decode(data []byte) ([]Operation, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	var in file
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if in.Version != fileVersion {
		return nil, fmt.Errorf("it has version %d: this program reads %d", in.Version, fileVersion)
	}
	in.Operations = in.Operations[max(0, len(in.Operations)-kept):]
	seen := map[string]bool{}
	var out []Operation
	for i, s := range in.Operations {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		if seen[s.ID] {
			return nil, fmt.Errorf("operation %d: %s is there twice", i, s.ID)
		}
		seen[s.ID] = true
		out = append(out, s.operation())
	}
	return out, nil
}

func (s *saved) check() error {
	long := len(s.ID) == 0 || len(s.ID) > maxText || len(s.Kind) == 0 || len(s.About) > maxAbout || len(s.Result) > maxResult
	for _, text := range []string{s.Kind, s.Group, s.Key, s.Of, string(s.Code), s.Message} {
		long = long || len(text) > maxText
	}
	for k, v := range s.About {
		long = long || len(k)+len(v) > 2*maxText
	}
	switch {
	case long:
		return errors.New("it lacks its id or kind, or has more than one holds")
	case s.State != Running && s.State != Done && s.State != Failed && s.State != Cancelled:
		return fmt.Errorf("it is in no state: %q", s.State)
	case (s.State == Running) != s.Ended.IsZero():
		return fmt.Errorf("its state is %s, and its end %v", s.State, s.Ended)
	case (s.State == Failed || s.State == Cancelled) != (s.Code != ""):
		return fmt.Errorf("its state is %s, and its error %q", s.State, s.Code)
	}
	return nil
}

func (s *saved) operation() Operation {
	o := Operation{ID: s.ID, Spec: Spec{Kind: s.Kind, Group: s.Group, Final: s.Final, About: s.About, Key: s.Key, Of: s.Of}, State: s.State, Began: s.Began, Ended: s.Ended}
	if s.Progress != nil {
		o.Progress = *s.Progress
	}
	if len(s.Result) > 0 {
		o.Result = s.Result
	}
	switch s.State {
	case Failed:
		o.Err = &swarm.Error{Code: s.Code, Verdict: s.Verdict, Message: s.Message}
	case Cancelled:
		o.Err = ErrCancelled
	}
	return o
}
