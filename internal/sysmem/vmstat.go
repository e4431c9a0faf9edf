package sysmem

import (
	"fmt"
	"strconv"
	"strings"
)

// readVMStat reads what macOS's vm_stat prints: pages that are free, and those that are
// given up before anything is swapped.
func readVMStat(text string) (Free, error) {
	first, rest, _ := strings.Cut(text, "\n")
	_, size, _ := strings.Cut(first, "page size of ")
	page, err := strconv.ParseInt(strings.TrimSuffix(size, " bytes)"), 10, 64)
	if err != nil {
		return Free{}, fmt.Errorf("vm_stat names no page size: %q", first)
	}
	var pages int64
	for _, name := range []string{"free", "inactive", "speculative"} {
		_, value, ok := strings.Cut(rest, "Pages "+name+":")
		value, _, _ = strings.Cut(value, ".")
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if !ok || err != nil {
			return Free{}, fmt.Errorf("vm_stat does not say how many pages are %s", name)
		}
		pages += n
	}
	return Free{Bytes: pages * page}, nil
}
