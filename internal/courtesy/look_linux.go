package courtesy

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of /proc/stat, the same on all processors that Go knows.
const tick = 10 * time.Millisecond

func look() (sample, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return sample{}, err
	}
	idle, err := idleTime(string(b))
	if err != nil {
		return sample{}, err
	}
	own, err := ownTime()
	return sample{time.Now(), idle, own}, err
}

// idleTime reads the first line of /proc/stat: cpu user nice system idle iowait ...
func idleTime(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "cpu" {
		return 0, errors.New("/proc/stat does not begin with the time of all processors")
	}
	idle, err := strconv.ParseInt(f[4], 10, 64)
	wait, err2 := strconv.ParseInt(f[5], 10, 64)
	return time.Duration(idle+wait) * tick, errors.Join(err, err2)
}

func ownTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
