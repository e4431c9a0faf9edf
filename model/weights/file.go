package weights

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"whorl/tensor"
)

// Format names a file format.
type Format string

// The formats.
const (
	Safetensors Format = "safetensors"
	GGUF        Format = "gguf"
)

// Info describes a tensor without touching its bytes.
type Info struct {
	Name string
	// Type is the file's own name of the element type, such as "BF16" or "Q5_K".
	Type string
	// DType is the type devices know it by; meaningful if Loadable.
	DType    tensor.DType
	Loadable bool
	// Shape has the outermost dimension first: a matrix is [rows][cols], as devices
	// and safetensors count, also where the file (GGUF) lists the innermost first.
	Shape []int
	Bytes int64
}

// Tensor is an Info with its bytes.
type Tensor struct {
	Info
	// Data is a view of the mapped file: read only, valid until [File.Close].
	Data []byte
}

// Matrix gives a two-dimensional tensor as devices take it. One dimension is a single row.
func (t Tensor) Matrix() (tensor.Matrix, error) {
	if !t.Loadable {
		return tensor.Matrix{}, fmt.Errorf("tensor %s has the unsupported type %s", t.Name, t.Type)
	}
	switch len(t.Shape) {
	case 1:
		return tensor.Matrix{DType: t.DType, Rows: 1, Cols: t.Shape[0], Data: t.Data}, nil
	case 2:
		return tensor.Matrix{DType: t.DType, Rows: t.Shape[0], Cols: t.Shape[1], Data: t.Data}, nil
	}
	return tensor.Matrix{}, fmt.Errorf("tensor %s has %d dimensions, want a matrix", t.Name, len(t.Shape))
}

// entry is a tensor's place: part indexes File.parts.
type entry struct {
	info   Info
	part   int
	offset int64 // from the start of the part
}

// File is an open checkpoint. It is safe for concurrent use, except that no view may be
// read after Close.
type File struct {
	format  Format
	path    string
	entries map[string]entry
	names   []string
	parts   []*mapping
	meta    Metadata
	touched atomic.Int64

	mu     sync.Mutex // guards closed
	closed bool
}

// Format says what kind of file it is.
func (f *File) Format() Format { return f.format }

// Path is what was opened: a file, or a folder of safetensors.
func (f *File) Path() string { return f.path }

// Names lists the tensors, sorted.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Metadata gives the key-value pairs of a GGUF file; it is empty for safetensors.
func (f *File) Metadata() *Metadata { return &f.meta }

// Info describes a tensor; false if there is none of that name.
func (f *File) Info(name string) (Info, bool) {
	e, ok := f.entries[name]
	return e.info, ok
}

// Tensor gives a tensor and counts its bytes as touched.
func (f *File) Tensor(name string) (Tensor, error) {
	t, err := f.View(name)
	f.Touch(len(t.Data))
	return t, err
}

// Touch counts bytes of a View that were read.
func (f *File) Touch(bytes int) { f.touched.Add(int64(bytes)) }

// View gives a tensor of which only a part will be read, and counts nothing. Of a file that is
// there in part the tensor is fetched; Fetch does so for many at once.
func (f *File) View(name string) (Tensor, error) {
	e, ok := f.entries[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%s: no tensor %q", f.path, name)
	}
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return Tensor{}, fmt.Errorf("%s: closed", f.path)
	}
	if err := f.parts[e.part].need(context.Background(), e.offset, e.offset+e.info.Bytes); err != nil {
		return Tensor{}, err
	}
	data := f.parts[e.part].data[e.offset : e.offset+e.info.Bytes : e.offset+e.info.Bytes]
	return Tensor{Info: e.info, Data: data}, nil
}

// Release tells the system that a tensor's pages need not stay resident; reading the view
// again is correct and pages them in anew. It keeps the memory of a server that has
// repacked its span near the size of the span.
func (f *File) Release(name string) {
	e, ok := f.entries[name]
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.parts[e.part].release(e.offset, e.info.Bytes)
	}
}

// Touched is the sum of the sizes of all tensors handed out so far, and of the parts read
// of others; headers do not count.
func (f *File) Touched() int64 { return f.touched.Load() }

// Stamps tells the files apart from what they may become; it is empty for bytes in memory.
func (f *File) Stamps() []Stamp {
	var out []Stamp
	for _, p := range f.parts {
		if p.mapped {
			out = append(out, p.stamp)
		}
	}
	return out
}

// Close unmaps the file. Views handed out must not be read any more.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var first error
	for _, p := range f.parts {
		if err := p.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// add registers a tensor of a part, whose bytes must lie inside the part.
func (f *File) add(e entry) error {
	if _, dup := f.entries[e.info.Name]; dup {
		return fmt.Errorf("tensor %q appears twice", e.info.Name)
	}
	if len(f.entries) >= maxTensors {
		return fmt.Errorf("more than %d tensors", maxTensors)
	}
	size := int64(len(f.parts[e.part].data))
	if e.offset < 0 || e.offset > size || e.info.Bytes > size-e.offset {
		return fmt.Errorf("tensor %q ends at byte %d but the file has %d: it is truncated or corrupt",
			e.info.Name, e.offset+e.info.Bytes, size)
	}
	f.entries[e.info.Name] = e
	return nil
}

// finish sorts the names and refuses tensors that share bytes: no honest writer makes
// them, and a digest over "the bytes of a block" must mean something.
func (f *File) finish() error {
	f.names = make([]string, 0, len(f.entries))
	byPlace := make([]entry, 0, len(f.entries))
	for n, e := range f.entries {
		f.names = append(f.names, n)
		if e.info.Bytes > 0 {
			byPlace = append(byPlace, e)
		}
	}
	slices.Sort(f.names)
	slices.SortFunc(byPlace, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.offset, b.offset), strings.Compare(a.info.Name, b.info.Name))
	})
	for i := 1; i < len(byPlace); i++ {
		a, b := byPlace[i-1], byPlace[i]
		if a.part == b.part && a.offset+a.info.Bytes > b.offset {
			return fmt.Errorf("tensors %q and %q overlap", a.info.Name, b.info.Name)
		}
	}
	return nil
}

// Paths lists the files, in the order of their parts.
func (f *File) Paths() (out []string) {
	for _, p := range f.parts {
		out = append(out, p.path)
	}
	return out
}
