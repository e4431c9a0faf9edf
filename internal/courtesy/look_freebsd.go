package courtesy

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// look reads kern.cp_time: user, nice, system, interrupt and idle, in ticks of stathz.
func look() (sample, error) {
	b, err := unix.SysctlRaw("kern.cp_time")
	if err != nil {
		return sample{}, err
	}
	rate, err := unix.SysctlClockinfo("kern.clockrate")
	if err != nil || rate.Stathz == 0 || len(b) < 5*8 {
		return sample{}, errors.Join(err, errors.New("kern.cp_time and kern.clockrate do not tell the time of processors"))
	}
	idle := time.Duration(binary.NativeEndian.Uint64(b[4*8:])) * time.Second / time.Duration(rate.Stathz)
	var u unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return sample{time.Now(), idle, time.Duration(u.Utime.Nano() + u.Stime.Nano())}, err
}
