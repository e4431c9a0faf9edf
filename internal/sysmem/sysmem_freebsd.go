package sysmem

import "golang.org/x/sys/unix"

// Available is what this process can take now: pages that are free, and those that are given
// up before anything is swapped.
func Available() (Free, error) {
	var pages int64
	for _, name := range []string{"vm.stats.vm.v_free_count", "vm.stats.vm.v_inactive_count"} {
		n, err := unix.SysctlUint32(name)
		if err != nil {
			return Free{}, err
		}
		pages += int64(n)
	}
	size, err := unix.SysctlUint32("hw.pagesize")
	return Free{Bytes: pages * int64(size)}, err
}
