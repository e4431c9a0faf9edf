package weights

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// drip is a file whose bytes lie elsewhere: a sparse file of its size, and a filler that
// copies what is asked for.
type drip struct {
	t       *testing.T
	data    []byte
	brought int64
	fail    error
}

func (d *drip) Fill(_ context.Context, path string, ranges [][2]int64) error {
	if d.fail != nil {
		return d.fail
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, r := range ranges {
		if r[0] < 0 || r[0] > r[1] || r[1] > int64(len(d.data)) {
			d.t.Errorf("bytes %v of %d are asked for", r, len(d.data))
			continue
		}
		d.brought += r[1] - r[0]
		if _, err := f.WriteAt(d.data[r[0]:r[1]], r[0]); err != nil {
			return err
		}
	}
	return nil
}

func (d *drip) Has(string, [][2]int64) bool { return d.fail == nil }

func sparse(t *testing.T, name string, data []byte) (*drip, Source) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(int64(len(data))), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &drip{t: t, data: data}
	return d, Source{path, d}
}

// Of a file that is there in part a reader brings the header, and a tensor when it is asked
// for; what comes is what the whole file holds.
func TestFilesInPart(t *testing.T) {
	const big = 16 << 20 // behind what the header's readers ask for ahead
	bulk := func(head []byte) []byte { return append(head, make([]byte, big)...) }
	st := bulk(safetensorsBytes(t, 60, member{"a", "F32", []int{2, 3}, 0, 24}, member{"b", "BF16", []int{18}, 24, 60}, member{"z", "U8", []int{big}, 60, 60 + big}))
	g := newGGUF(3, 3, 0).tensor("a", 0, 0, 8).tensor("b", 3, 32, 64, 2).tensor("z", 0, 128, big/4)
	gg := bulk(g.data(32, 128))
	for i := range big { // what the far tensor holds
		st[len(st)-big+i], gg[len(gg)-big+i] = byte(i>>8), byte(i>>8)
	}
	for name, c := range map[string]struct {
		data []byte
		open func(Source) (*File, error)
	}{
		"m.safetensors": {st, func(s Source) (*File, error) { return s.OpenSafetensors(t.Context()) }},
		"m.gguf":        {gg, func(s Source) (*File, error) { return s.OpenGGUF(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := c.open(Source{Path: write(t, name, c.data)})
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			d, src := sparse(t, name, c.data)
			f, err := c.open(src)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if d.brought > 2*readAhead {
				t.Errorf("%d bytes are brought for a header", d.brought)
			}
			before := d.brought
			if err := f.Fetch(t.Context(), []string{"b"}); err != nil {
				t.Fatal(err)
			}
			info, _ := f.Info("b")
			if d.brought != before+info.Bytes {
				t.Errorf("%d bytes are brought for a tensor of %d", d.brought-before, info.Bytes)
			}
			for _, tensor := range []string{"a", "b", "z"} {
				want, _ := whole.Tensor(tensor)
				got, err := f.Tensor(tensor)
				if err != nil || !bytes.Equal(got.Data, want.Data) {
					t.Errorf("%s: %v, or other bytes", tensor, err)
				}
			}
			if f.Fetch(t.Context(), []string{"none"}) == nil {
				t.Error("a tensor that is not there is fetched")
			}
			d.fail = errors.New("unplugged")
			if _, err := f.Tensor("a"); !errors.Is(err, d.fail) {
				t.Errorf("bytes that nobody brings: %v", err)
			}
			if _, err := c.open(src); !errors.Is(err, d.fail) {
				t.Errorf("a header that nobody brings: %v", err)
			}
		})
	}
}
