package weights

import (
	"context"
	"errors"
)

// Source is where a checkpoint's files lie: all of them on this disk, or some only in part,
// as sparse files of the right size whose bytes somebody brings when they are asked for.
type Source struct {
	Path   string // a file or a folder
	Filler Filler // nil: everything is there
}

// Filler brings bytes of files that lie on this disk in part.
type Filler interface {
	// Fill returns once the byte ranges [from, to) of a file are on the disk. path is as it
	// was opened. Safe for concurrent use.
	Fill(ctx context.Context, path string, ranges [][2]int64) error
	// Has tells whether byte ranges are on the disk.
	Has(path string, ranges [][2]int64) bool
}

// readAhead is how much of a header of unknown length is asked for at once.
const readAhead = 4 << 20

// need sees that bytes [from, to) of a mapping are there.
func (m *mapping) need(ctx context.Context, from, to int64) error {
	if m.filler == nil {
		return nil
	}
	return m.filler.Fill(ctx, m.path, [][2]int64{{from, min(to, int64(len(m.data)))}})
}

// header gives the fill function of a cursor over a mapping, which brings ever more of its
// beginning; nil where all is there.
func (m *mapping) header(ctx context.Context) func(end int) error {
	if m.filler == nil {
		return nil
	}
	have := 0
	return func(end int) error {
		if end <= have {
			return nil
		}
		have = min(max(end, have+readAhead), len(m.data))
		return m.need(ctx, 0, int64(have))
	}
}

// Fetch brings the bytes of tensors onto this disk, those of one file together. It does
// nothing where all is there. A tensor that was not fetched is brought when it is viewed.
func (f *File) Fetch(ctx context.Context, names []string) error {
	ranges, err := f.ranges(names)
	if err != nil {
		return err
	}
	for i, r := range ranges {
		if p := f.parts[i]; p.filler != nil && len(r) > 0 {
			if err := p.filler.Fill(ctx, p.path, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Whole tells whether all bytes are on this disk: reading them brings nothing.
func (f *File) Whole() bool {
	for _, p := range f.parts {
		if p.filler != nil && !p.filler.Has(p.path, [][2]int64{{0, int64(len(p.data))}}) {
			return false
		}
	}
	return true
}

// Has tells whether the bytes of tensors are on this disk.
func (f *File) Has(names []string) bool {
	ranges, err := f.ranges(names)
	if err != nil {
		return false
	}
	for i, r := range ranges {
		if p := f.parts[i]; p.filler != nil && len(r) > 0 && !p.filler.Has(p.path, r) {
			return false
		}
	}
	return true
}

// ranges lists where tensors lie, for each of the files.
func (f *File) ranges(names []string) ([][][2]int64, error) {
	out := make([][][2]int64, len(f.parts))
	for _, name := range names {
		e, ok := f.entries[name]
		if !ok {
			return nil, errors.New(f.path + ": no tensor " + name)
		}
		out[e.part] = append(out[e.part], [2]int64{e.offset, e.offset + e.info.Bytes})
	}
	return out, nil
}
