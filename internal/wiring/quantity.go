package wiring

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration flag: a number of seconds, as Petals takes it, or a Go duration
// such as 1m30s.
type Seconds time.Duration

func (s *Seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil {
			return fmt.Errorf("%q is no duration: want seconds, such as 30, or a duration, such as 1m30s", text)
		}
		d = time.Duration(f * float64(time.Second))
	}
	if d < 0 {
		return fmt.Errorf("%q is a negative duration", text)
	}
	*s = Seconds(d)
	return nil
}

func (s *Seconds) String() string { return time.Duration(*s).String() }
func (s *Seconds) Type() string   { return "duration" }

// Size is a number of bytes: "50GB" is 50e9, "8GiB" is 8*2^30, a plain number is bytes.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1}, {"", 1},
}

func (s *Size) Set(text string) error {
	low := strings.ToLower(strings.TrimSpace(text))
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(low, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		// 2^60 is far beyond any machine and well inside an int64.
		if err != nil || !(n >= 0) || n*u.bytes > 1<<60 {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is no size: want bytes, such as 8GiB or 50GB", text)
}

// String is a text that Set reads, in a unit that leaves a whole number if there is one.
func (s *Size) String() string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"TB", 1e12}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}} {
		if n := int64(*s); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *Size) Type() string { return "size" }
