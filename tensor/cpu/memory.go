package cpu

// hugePage is the size of the pages we ask for: they save the misses that streaming
// weights would otherwise take every 4 KiB.
const hugePage = 2 << 20

// slabSize is how much memory is mapped for small weights at a time, so that they share
// huge pages.
const slabSize = 16 * hugePage

// slab is memory outside the Go heap, committed as it is touched. It is freed once nothing
// holds the slab, so whoever keeps a view of it keeps the slab.
type slab struct {
	mem  []byte
	used int
}

// carve gives n zero bytes, aligned to a cache line, of the current slab or of one of
// their own. The caller keeps the slab as long as the bytes.
func (d *Device) carve(n int) (*slab, []byte, error) {
	s := d.slab
	if s == nil || n > len(s.mem)-s.used {
		var err error
		if s, err = newSlab(max(n, slabSize)); err != nil {
			return nil, nil, err
		}
		if n < slabSize/2 {
			d.slab = s
		}
	}
	b := s.mem[s.used : s.used+n : s.used+n]
	s.used += (n + 63) &^ 63
	s.used = min(s.used, len(s.mem))
	return s, b, nil
}
