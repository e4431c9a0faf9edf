package sysmem

import (
	"strings"
	"testing"
	"testing/fstest"
)

const (
	meminfo = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n"
	v2      = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	v1      = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	none    = "9223372036854771712" // how version 1 says that there is no limit
)

// The least of free memory and what the control groups on the way to the root leave.
func TestProc(t *testing.T) {
	for _, c := range []struct {
		name           string
		mounts, groups string
		files          map[string]string // below /sys/fs/cgroup
		mib            int64
		limit          string
	}{
		{"no control groups", "", "", nil, 8192, ""},
		{"no limit", v2, "0::/a\n", map[string]string{"a/memory.max": "max", "a/memory.high": "max", "a/memory.current": "1048576"}, 8192, ""},
		{"max", v2, "0::/a\n", map[string]string{"a/memory.max": "4294967296"}, 4096, "memory.max of 4096 MiB of control group /a"},
		{"high below max", v2, "0::/a\n", map[string]string{"a/memory.max": "4294967296", "a/memory.high": "2147483648"}, 2048, "memory.high of 2048 MiB of control group /a"},
		{"a group above", v2, "0::/a/b/c\n", map[string]string{"a/memory.max": "1073741824", "a/b/memory.max": "max", "a/b/c/memory.max": "4294967296"},
			1024, "memory.max of 1024 MiB of control group /a"},
		{"what others in it use", v2, "0::/a\n", map[string]string{
			"a/memory.max": "4294967296", "a/memory.current": "2147483648", "a/memory.stat": "anon 1073741824\ninactive_file 536870912\nactive_file 536870912\n"},
			3072, "memory.max of 4096 MiB of control group /a"},
		{"used up", v2, "0::/a\n", map[string]string{"a/memory.max": "1048576", "a/memory.current": "2097152"}, 0, "memory.max of 1 MiB of control group /a"},
		{"a wide limit", v2, "0::/a\n", map[string]string{"a/memory.max": "17179869184"}, 8192, ""},
		{"a container that sees itself as the root", v2, "0::/\n", map[string]string{"memory.max": "4294967296"}, 4096, "memory.max of 4096 MiB of control group /"},
		{"a container whose mount is its own group", "30 23 0:26 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/7/x\n",
			map[string]string{"x/memory.max": "max", "memory.max": "4294967296"}, 4096, "memory.max of 4096 MiB of control group /"},
		{"a group outside of the mount", "30 23 0:26 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/77\n",
			map[string]string{"memory.max": "4294967296"}, 4096, "memory.max of 4096 MiB of control group /"},
		{"version 1", v1, "3:cpu,cpuacct:/b\n2:memory:/a\n", map[string]string{
			"memory/a/memory.limit_in_bytes": "4294967296", "memory/a/memory.usage_in_bytes": "1073741824", "memory/memory.limit_in_bytes": none, "cpu/b/memory.limit_in_bytes": "1"},
			3072, "memory.limit_in_bytes of 4096 MiB of control group /a"},
		{"version 1 without limit", v1, "2:memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": none}, 8192, ""},
		{"both versions", v1 + strings.Replace(v2, "cgroup rw", "cgroup/unified rw", 1), "2:memory:/a\n0::/\n", map[string]string{
			"memory/a/memory.limit_in_bytes": "4294967296"}, 4096, "memory.limit_in_bytes of 4096 MiB of control group /a"},
		{"rubbish", "one two\n - x\n" + v2, "nonsense\n0::/a\n", map[string]string{"a/memory.max": "much", "a/memory.current": "-"}, 8192, ""},
	} {
		root := fstest.MapFS{
			"proc/meminfo": {Data: []byte(meminfo)}, "proc/self/mountinfo": {Data: []byte(c.mounts)}, "proc/self/cgroup": {Data: []byte(c.groups)},
		}
		for name, text := range c.files {
			root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
		got, err := readProc(root)
		if want := (Free{c.mib << 20, c.limit}); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, want)
		}
	}
	for _, root := range []fstest.MapFS{{}, {"proc/meminfo": {Data: []byte("MemFree: 7 kB\n")}}} {
		if got, err := readProc(root); err == nil {
			t.Errorf("%+v from nothing", got)
		}
	}
}

func TestVMStat(t *testing.T) {
	const text = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               65536.
Pages active:                            300000.
Pages inactive:                          131072.
Pages speculative:                        65536.
Pages throttled:                              0.
Pages wired down:                        100000.
`
	if got, err := readVMStat(text); err != nil || got != (Free{Bytes: 4 << 30}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "nonsense\n", "Mach Virtual Memory Statistics: (page size of 4096 bytes)\nPages free: 7.\n"} {
		if got, err := readVMStat(bad); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

// This system can tell, or says that it cannot.
func TestAvailable(t *testing.T) {
	if got, err := Available(); err == nil && got.Bytes < 1<<20 {
		t.Errorf("%+v", got)
	}
}

// How short memory is: what the tightest limit leaves of how much, and who waits for it. The
// process's own group says so where it can, and else the system.
func TestPressure(t *testing.T) {
	const stalls = "some avg10=40.00 avg60=1.00 avg300=0.00 total=7\nfull avg10=12.50 avg60=1.00 avg300=0.00 total=7\n"
	const calm = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	for _, c := range []struct {
		name           string
		mounts, groups string
		files          map[string]string
		want           Pressure
	}{
		{"the system", "", "", map[string]string{"proc/pressure/memory": stalls}, Pressure{8 << 30, 16 << 30, "", 0.125}},
		{"a system that does not tell of stalls", "", "", nil, Pressure{8 << 30, 16 << 30, "", 0}},
		{"a group of version 2", v2, "0::/a\n", map[string]string{"proc/pressure/memory": calm, "sys/fs/cgroup/a/memory.pressure": stalls,
			"sys/fs/cgroup/a/memory.max": "1073741824", "sys/fs/cgroup/a/memory.current": "1048576000"},
			Pressure{25165824, 1 << 30, "memory.max of 1024 MiB of control group /a", 0.125}},
		{"others stall, and the own group does not", v2, "0::/a\n", map[string]string{"proc/pressure/memory": stalls, "sys/fs/cgroup/a/memory.pressure": calm},
			Pressure{8 << 30, 16 << 30, "", 0}},
		{"a group of version 1", v1, "2:memory:/a\n", map[string]string{"proc/pressure/memory": stalls,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824", "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1048576000"},
			Pressure{25165824, 1 << 30, "memory.limit_in_bytes of 1024 MiB of control group /a", 0.125}},
		{"rubbish", "", "", map[string]string{"proc/pressure/memory": "full\nfull avg10=much\nfull avg10=-3\nfull avg10=1e9\nfull avg10=NaN\n"}, Pressure{8 << 30, 16 << 30, "", 0}},
	} {
		root := fstest.MapFS{
			"proc/meminfo": {Data: []byte(meminfo)}, "proc/self/mountinfo": {Data: []byte(c.mounts)}, "proc/self/cgroup": {Data: []byte(c.groups)},
		}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, err := NewWatcher(root).Read(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := NewWatcher(fstest.MapFS{}).Read(); err == nil {
		t.Error("something from nothing")
	}
	var none *Watcher
	if _, err := none.Read(); err != ErrUnwatched {
		t.Error(err)
	}
}
