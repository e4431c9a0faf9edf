package sysmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// readProc reads what Linux tells in files below root.
func readProc(root fs.FS) (Free, error) {
	w := NewWatcher(root)
	l, err := w.left()
	return Free{Bytes: l.bytes, Limit: l.name()}, err
}

// left is what a limit leaves.
type left struct {
	bytes int64
	of    int64  // the limit; without one the memory of the system
	file  string // that says so; "": there is no limit below the system's memory
	group string

	system int64 // the memory of the system, 0 if it does not say
}

func (l *left) name() string {
	if l.file == "" {
		return ""
	}
	return fmt.Sprintf("%s of %d MiB of control group %s", l.file, l.of>>20, l.group)
}

// left reads the tightest limit.
func (w *Watcher) left() (left, error) {
	meminfo, err := fs.ReadFile(w.root, "proc/meminfo")
	if err != nil {
		return left{}, err
	}
	kib, ok := field(string(meminfo), "MemAvailable:")
	if !ok {
		return left{}, errors.New("no MemAvailable in /proc/meminfo")
	}
	all, _ := field(string(meminfo), "MemTotal:")
	l := left{bytes: kib << 10, of: all << 10, system: all << 10}
	for i := range w.hierarchies {
		w.hierarchies[i].narrow(w.root, &l)
	}
	return l, nil
}

// hierarchy is a tree of control groups that limits memory.
type hierarchy struct {
	mount, group string // where it is mounted, and the group of this process below that
	limits       []string
	usage        string   // file of what is used
	reclaimable  []string // lines of memory.stat: pages of files, which go before anybody is ended
	stalls       string   // file of what is stalled for memory; "": this version has none
}

// hierarchies are those that this process is in: of version 2, of version 1, or of both.
func hierarchies(mounts, groups string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /mount/point options... - type source options
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		h := hierarchy{mount: octal.Replace(l[4])}
		controllers := ""
		switch {
		case r[0] == "cgroup2":
			h.limits, h.usage = []string{"memory.max", "memory.high"}, "memory.current"
			h.reclaimable = []string{"inactive_file", "active_file"}
			h.stalls = "memory.pressure"
		case r[0] == "cgroup" && listed(r[2], "memory"):
			controllers = "memory"
			h.limits, h.usage = []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes"
			h.reclaimable = []string{"total_inactive_file", "total_active_file"}
		default:
			continue
		}
		group, ok := groupOf(groups, controllers)
		if !ok {
			continue
		}
		// A container may see its own group as the root of the mount.
		root := octal.Replace(l[3])
		if below, ok := strings.CutPrefix(group, strings.TrimSuffix(root, "/")); ok && (below == "" || below[0] == '/') {
			h.group = path.Clean("/" + below)
		} else {
			h.group = "/"
		}
		out = append(out, h)
	}
	return out
}

// octal undoes how mountinfo writes what would end a field.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func listed(list, name string) bool {
	for s := range strings.SplitSeq(list, ",") {
		if s == name {
			return true
		}
	}
	return false
}

// groupOf finds the path of the group in the hierarchy with a controller; "": of version 2.
func groupOf(groups, controller string) (string, bool) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (controller == "" && parts[0] == "0" || controller != "" && listed(parts[1], controller)) {
			return parts[2], true
		}
	}
	return "", false
}

// narrow lowers l to what the group and all above it leave. A file that is missing or
// says that there is no limit limits nothing.
func (h *hierarchy) narrow(root fs.FS, l *left) {
	read := func(group, name string) (string, bool) {
		b, err := fs.ReadFile(root, strings.TrimPrefix(path.Join(h.mount, group, name), "/"))
		return strings.TrimSpace(string(b)), err == nil
	}
	for group := h.group; ; group = path.Dir(group) {
		limit, name := h.limit(group, l.system, read)
		if name != "" {
			var used int64
			if text, ok := read(group, h.usage); ok {
				used, _ = strconv.ParseInt(text, 10, 64)
			}
			stat, _ := read(group, "memory.stat")
			for _, name := range h.reclaimable {
				n, _ := field(stat, name)
				used -= n
			}
			if n := max(limit-max(used, 0), 0); n < l.bytes {
				*l = left{n, limit, name, group, l.system}
			}
		}
		if group == "/" {
			return
		}
	}
}

// limit is the least limit of a group, and the file that says so; "" if there is none below the memory of the system.
// Who has none is not asked for the rest, which costs the kernel a sum over all that the group holds.
func (h *hierarchy) limit(group string, system int64, read func(group, name string) (string, bool)) (least int64, name string) {
	for _, file := range h.limits {
		text, _ := read(group, file)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || system > 0 && n >= system { // there is none, or "max", or no limit at all
			continue
		}
		if name == "" || n < least {
			least, name = n, file
		}
	}
	return least, name
}

// field is the number behind a name at the start of a line.
func field(text, name string) (int64, bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
