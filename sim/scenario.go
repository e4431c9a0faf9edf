package sim

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"whorl/swarm"
)

// Scenario is a swarm and what befalls it.
type Scenario struct {
	Name       string
	About      string // the first comment
	Blocks     int
	BlockBytes float64
	Length     time.Duration
	Warm       time.Duration // what happens before it is in no figure
	Seed       uint64
	Demand     float64 // what readers want, as a share of the bound
	Groups     []Group
	Incidents  []Incident
	Readers    *Readers // nil: none are played
}

// Group is a number of servers of one kind. Pairs are drawn from evenly, rates evenly on a
// logarithmic scale.
type Group struct {
	Servers int
	Span    [2]float64 // blocks that memory has room for
	Least   int        // blocks it takes at least; 0: as many as it has room for
	Rate    [2]float64 // tokens per second through one block
	Load    [2]float64 // seconds to load a block
	Start   [2]float64 // seconds
	Life    float64    // mean seconds of a stay; 0: for ever
	Shape   float64    // of its Weibull distribution; below 1 many leave early
	Away    [2]float64 // seconds until it comes back
	Polite  float64    // share of the stays that end with a word
	Night   float64    // share of the servers that are away for eight hours of every day
	Beside  float64    // share of the servers that have room for old and new blocks at once
	Link    Link
	Boast   float64 // how many times as much as it gives a server says that it does; 0 is 1
}

// Incident befalls a share of the servers that are there.
type Incident struct {
	At     time.Duration
	Kind   string // kill, partition, flap, slow
	Share  float64
	Length time.Duration // partition, flap
	Factor float64       // slow
}

//go:embed scenarios
var builtIn embed.FS

// Names lists the scenarios that come with the program.
func Names() []string {
	files, err := fs.Glob(builtIn, "scenarios/*.txt")
	if err != nil {
		return nil
	}
	for i := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(files[i], "scenarios/"), ".txt")
	}
	return files
}

// BuiltIn reads a scenario that comes with the program.
func BuiltIn(name string) (*Scenario, error) {
	text, err := builtIn.ReadFile("scenarios/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("scenario %q: no such file, and none that comes with whorl (%s)", name, strings.Join(Names(), ", "))
	}
	return Parse(name, string(text))
}

// Bounds of a scenario: what a machine simulates in minutes.
const (
	maxServers  = 20000
	maxLength   = 31 * 24 * time.Hour
	maxText     = 1 << 20
	maxSeconds  = 1e9
	defaultWarm = 30 * time.Minute
)

// Parse reads the text of a scenario: a statement a line, # for comments. docs/sim.md
// describes it.
func Parse(name, text string) (*Scenario, error) {
	s := &Scenario{Name: name, BlockBytes: 100e6, Length: 6 * time.Hour, Warm: defaultWarm, Seed: 1, Demand: 0.5}
	if len(text) > maxText {
		return nil, fmt.Errorf("scenario %s: %d bytes, at most %d", name, len(text), maxText)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxText+1)
	for n := 1; lines.Scan(); n++ {
		line, comment, _ := strings.Cut(lines.Text(), "#")
		if s.About == "" && strings.TrimSpace(line) == "" {
			s.About = strings.TrimSpace(comment)
		}
		if words := strings.Fields(line); len(words) > 0 {
			if err := s.statement(words); err != nil {
				return nil, fmt.Errorf("scenario %s, line %d: %w", name, n, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	return s, s.validate()
}

func (s *Scenario) statement(words []string) (err error) {
	verb, rest := words[0], words[1:]
	if len(rest) == 0 {
		return fmt.Errorf("%s: what? a value is missing", verb)
	}
	switch verb {
	case "blocks":
		s.Blocks, err = strconv.Atoi(rest[0])
	case "megabytes":
		s.BlockBytes, err = strconv.ParseFloat(rest[0], 64)
		s.BlockBytes *= 1e6
	case "length":
		s.Length, err = time.ParseDuration(rest[0])
	case "warm":
		s.Warm, err = time.ParseDuration(rest[0])
	case "seed":
		s.Seed, err = strconv.ParseUint(rest[0], 10, 64)
	case "demand":
		s.Demand, err = strconv.ParseFloat(rest[0], 64)
	case "servers":
		return s.group(rest)
	case "readers":
		return s.readers(rest)
	case "at":
		return s.incident(rest)
	default:
		return fmt.Errorf("%q is no statement: want blocks, megabytes, length, warm, seed, demand, servers, readers or at", verb)
	}
	if err == nil && len(rest) > 1 {
		err = fmt.Errorf("%q is one word too many", rest[1])
	}
	return err
}

func (s *Scenario) group(words []string) error {
	g := Group{Span: [2]float64{4, 4}, Rate: [2]float64{100, 100}, Load: [2]float64{2, 2}, Shape: 1, Beside: 1, Boast: 1}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 {
		return fmt.Errorf("servers %q: want their number first", words[0])
	}
	g.Servers = n
	pairs := map[string]*[2]float64{"span": &g.Span, "rate": &g.Rate, "load": &g.Load, "start": &g.Start, "away": &g.Away, "rtt": &g.Link.RTT, "mbit": &g.Link.Mbit}
	numbers := map[string]*float64{"life": &g.Life, "shape": &g.Shape, "polite": &g.Polite, "night": &g.Night, "beside": &g.Beside, "boast": &g.Boast}
	err = values("servers", words[1:], func(key, value string) (err error) {
		switch {
		case pairs[key] != nil:
			*pairs[key], err = pair(value)
		case numbers[key] != nil:
			*numbers[key], err = number(value)
		case key == "least":
			g.Least, err = strconv.Atoi(value)
		default:
			return errKey("span, least, rate, load, start, life, shape, away, polite, night, beside, rtt, mbit or boast")
		}
		return err
	})
	if err != nil {
		return err
	}
	s.Groups = append(s.Groups, g)
	return nil
}

// errKey is what may stand where a word stands that means nothing.
type errKey string

func (e errKey) Error() string { return string(e) }

// values hands the pairs of a statement on.
func values(verb string, words []string, set func(key, value string) error) error {
	for i := 0; i < len(words); i += 2 {
		if i+1 == len(words) {
			return fmt.Errorf("%s: a value is missing", words[i])
		}
		var key errKey
		switch err := set(words[i], words[i+1]); {
		case errors.As(err, &key):
			return fmt.Errorf("%s: %q is nothing that they have: want %s", verb, words[i], key)
		case err != nil:
			return fmt.Errorf("%s: %s %s: %w", verb, words[i], words[i+1], err)
		}
	}
	return nil
}

func (s *Scenario) incident(words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("at: want TIME kill SHARE, TIME partition SHARE LENGTH, TIME flap SHARE LENGTH or TIME slow SHARE FACTOR")
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	i := Incident{At: at, Kind: words[1], Factor: 1}
	if i.Share, err = number(words[2]); err != nil {
		return err
	}
	want := map[string]int{"kill": 3, "partition": 4, "flap": 4, "slow": 4}[i.Kind]
	if want == 0 || want != len(words) {
		return fmt.Errorf("at: %q with %d values: want kill SHARE, partition SHARE LENGTH, flap SHARE LENGTH or slow SHARE FACTOR", i.Kind, len(words)-2)
	}
	switch i.Kind {
	case "partition", "flap":
		i.Length, err = time.ParseDuration(words[3])
	case "slow":
		i.Factor, err = number(words[3])
	}
	s.Incidents = append(s.Incidents, i)
	return err
}

// number reads a number, or a duration as seconds.
func number(text string) (float64, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds(), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || x < 0 || x > maxSeconds {
		return 0, fmt.Errorf("%q is no number, share or duration", text)
	}
	return x, nil
}

// pair reads "4-10", or "4" for both.
func pair(text string) (p [2]float64, err error) {
	low, high, two := strings.Cut(text, "-")
	if !two {
		high = low
	}
	if p[0], err = number(low); err == nil {
		p[1], err = number(high)
	}
	if err == nil && p[0] > p[1] {
		err = fmt.Errorf("%g is above %g", p[0], p[1])
	}
	return p, err
}

func (s *Scenario) validate() error {
	n := 0
	for _, g := range s.Groups {
		n += g.Servers
		switch {
		case g.Span[0] < 1 || g.Rate[0] <= 0 || g.Shape <= 0:
			return fmt.Errorf("scenario %s: servers need a span, a rate and a shape above 0", s.Name)
		case g.Polite > 1 || g.Night > 1 || g.Beside > 1:
			return fmt.Errorf("scenario %s: polite, night and beside are shares of 1", s.Name)
		case g.Least > int(g.Span[0]):
			return fmt.Errorf("scenario %s: least %d is above the span of %g", s.Name, g.Least, g.Span[0])
		case g.Boast <= 0 || g.Link.Mbit[0] == 0 && g.Link.Mbit[1] > 0:
			return fmt.Errorf("scenario %s: servers need a boast and a rate of their link above 0", s.Name)
		case g.Life > 0 && g.Life < 1:
			return fmt.Errorf("scenario %s: a life of %g s is too short", s.Name, g.Life)
		}
	}
	switch {
	case s.Blocks < 1 || s.Blocks > swarm.MaxBlocks:
		return fmt.Errorf("scenario %s: blocks %d, want 1 to %d", s.Name, s.Blocks, swarm.MaxBlocks)
	case n < 1 || n > maxServers:
		return fmt.Errorf("scenario %s: %d servers, want 1 to %d", s.Name, n, maxServers)
	case s.Length <= s.Warm || s.Length > maxLength || s.Warm < 0:
		return fmt.Errorf("scenario %s: a length of %v with %v to warm up, want up to %v", s.Name, s.Length, s.Warm, maxLength)
	case !(s.BlockBytes >= 0) || !(s.Demand >= 0):
		return fmt.Errorf("scenario %s: megabytes and demand must not be negative", s.Name)
	}
	if s.Readers != nil {
		if err := s.Readers.validate(n); err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	for _, i := range s.Incidents {
		if i.Share > 1 || i.At < 0 || i.Length < 0 || i.Kind == "slow" && i.Factor <= 0 {
			return fmt.Errorf("scenario %s: %s of a share of %g at %v", s.Name, i.Kind, i.Share, i.At)
		}
		if i.Kind == "partition" && n > maxViews {
			return fmt.Errorf("scenario %s: a partition needs a view for each server, and that is simulated for up to %d", s.Name, maxViews)
		}
	}
	slices.SortStableFunc(s.Incidents, func(a, b Incident) int { return int(a.At - b.At) })
	return nil
}
