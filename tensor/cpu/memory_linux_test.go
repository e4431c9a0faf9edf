package cpu

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"whorl/tensor"
)

// resident counts the bytes of a slab that memory is taken for.
func resident(t *testing.T, s *slab) (bytes int) {
	t.Helper()
	vec := make([]byte, (len(s.mem)+4095)/4096)
	if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&s.mem[0])), uintptr(len(s.mem)), uintptr(unsafe.Pointer(&vec[0]))); err != 0 {
		t.Fatal(err)
	}
	for _, v := range vec {
		bytes += int(v&1) * 4096
	}
	return bytes
}

// Pages of a pool that are freed go back to the system, and what others hold stays.
func TestFreePages(t *testing.T) {
	d, err := Open(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cache, err := d.NewKV(tensor.KVSpec{Layers: 4, KVHeads: 4, HeadDim: 64, Pages: 32})
	if err != nil {
		t.Fatal(err)
	}
	c := cache.(*kv)
	for i := range c.full {
		c.full[i] = float32(i%1000) + 1
	}
	kept := []int32{0, 7, 31}
	var freed []int32
	for p := int32(31); p >= 0; p-- { // in any order
		if !slices.Contains(kept, p) {
			freed = append(freed, p)
		}
	}
	before := resident(t, c.slab)
	d.FreePages(c, freed)
	after, page := resident(t, c.slab), int(c.PageBytes())
	if want := len(kept) * page; before < 32*page || after > want+8*4096*len(kept) {
		t.Errorf("%d bytes before, %d after, want about %d", before, after, want)
	}
	for _, p := range kept {
		for i := int(p) * c.pageLen(); i < (int(p)+1)*c.pageLen(); i++ {
			if c.full[i] != float32(i%1000)+1 {
				t.Fatalf("page %d has changed at %d", p, i)
			}
		}
	}
	for i := 8 * c.pageLen(); i < 31*c.pageLen(); i++ {
		if c.full[i] != 0 {
			t.Fatalf("a freed page reads %v", c.full[i])
		}
	}
}
