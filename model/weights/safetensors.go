package weights

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names that the reference library gives to weight files of a folder.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// OpenSafetensors opens a .safetensors file, or a folder that holds model.safetensors or
// shards named by model.safetensors.index.json.
func OpenSafetensors(path string) (*File, error) {
	return Source{Path: path}.OpenSafetensors(context.Background())
}

// OpenSafetensors opens what lies at a source, as the function of that name does.
func (s Source) OpenSafetensors(ctx context.Context) (*File, error) {
	path := s.Path
	files, want, err := safetensorsParts(path)
	if err != nil {
		return nil, err
	}
	f := &File{format: Safetensors, path: path, entries: map[string]entry{}}
	for _, name := range files {
		m, err := mapFile(name, s.Filler)
		if errors.Is(err, os.ErrNotExist) && want != nil {
			err = fmt.Errorf("%s names %s, which is not there: fetch the whole model", filepath.Join(path, indexName), filepath.Base(name))
		}
		if err == nil {
			f.parts = append(f.parts, m)
			if err = f.addSafetensors(ctx, len(f.parts)-1); err != nil {
				err = fmt.Errorf("read %s: %w", name, err)
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	err = f.checkIndex(files, want)
	if err == nil {
		err = f.finish()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// HasSafetensors tells whether a folder holds what OpenSafetensors looks for.
func HasSafetensors(dir string) bool {
	for _, name := range []string{indexName, singleName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// safetensorsParts lists the files of a checkpoint, and for a sharded one which tensor the
// index promises where (tensor -> file).
func safetensorsParts(path string) ([]string, map[string]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil, nil
	}
	raw, err := readLimited(filepath.Join(path, indexName), maxIndex)
	if errors.Is(err, os.ErrNotExist) {
		single := filepath.Join(path, singleName)
		if _, err := os.Stat(single); err != nil {
			return nil, nil, fmt.Errorf("open %s: the folder has neither %s nor %s", path, singleName, indexName)
		}
		return []string{single}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return parseIndex(path, raw)
}

func parseIndex(dir string, raw []byte) ([]string, map[string]string, error) {
	where := filepath.Join(dir, indexName)
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, nil, fmt.Errorf("read %s: not a valid index: %w", where, err)
	}
	if len(index.WeightMap) == 0 {
		return nil, nil, fmt.Errorf("read %s: weight_map is empty or missing", where)
	}
	if len(index.WeightMap) > maxTensors {
		return nil, nil, fmt.Errorf("read %s: more than %d tensors", where, maxTensors)
	}
	want := make(map[string]string, len(index.WeightMap))
	var files []string
	for name, file := range index.WeightMap {
		if file != filepath.Base(file) || strings.HasPrefix(file, ".") || !strings.HasSuffix(file, ".safetensors") {
			return nil, nil, fmt.Errorf("read %s: %q is not the name of a safetensors file of this folder", where, file)
		}
		full := filepath.Join(dir, file)
		want[name] = full
		files = append(files, full)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > maxShards {
		return nil, nil, fmt.Errorf("read %s: more than %d shards", where, maxShards)
	}
	return files, want, nil
}

// checkIndex compares what the index promised with what the shards hold.
func (f *File) checkIndex(files []string, want map[string]string) error {
	for name, file := range want {
		e, ok := f.entries[name]
		if !ok || files[e.part] != file {
			return fmt.Errorf("the index puts tensor %q in %s, which does not hold it", name, filepath.Base(file))
		}
	}
	return nil
}

// addSafetensors parses the header of a part: 8 bytes of length, a JSON object of that
// length, then the data.
func (f *File) addSafetensors(ctx context.Context, part int) error {
	data := f.parts[part].data
	if len(data) < 8 {
		return fmt.Errorf("%d bytes are too short for a safetensors file", len(data))
	}
	if err := f.parts[part].need(ctx, 0, 8); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxJSONHeader {
		return fmt.Errorf("the header claims %d bytes, the limit is %d: not a safetensors file?", n, maxJSONHeader)
	}
	if n > uint64(len(data)-8) {
		return fmt.Errorf("the header claims %d bytes but the file has %d: it is truncated or corrupt", n, len(data))
	}
	start := 8 + int64(n)
	if err := f.parts[part].need(ctx, 0, start); err != nil {
		return err
	}
	last := start
	dec := json.NewDecoder(bytes.NewReader(data[8:start]))
	err := eachMember(dec, func(name string) error {
		if name == "__metadata__" {
			var skip map[string]string
			return dec.Decode(&skip)
		}
		e, err := decodeEntry(dec, name)
		if err != nil {
			return err
		}
		e.part = part
		e.offset += start
		last = max(last, e.offset+e.info.Bytes)
		return f.add(e)
	})
	if err != nil {
		return fmt.Errorf("bad header: %w", err)
	}
	if last != int64(len(data)) {
		return fmt.Errorf("the tensors end at byte %d but the file has %d: it is damaged", last, len(data))
	}
	return nil
}

// eachMember calls visit for every key of the one object in dec; visit must decode the value.
func eachMember(dec *json.Decoder, visit func(key string) error) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("a key is %v", t)
		}
		if len(key) > maxName {
			return fmt.Errorf("a name of %d bytes", len(key))
		}
		if err := visit(key); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// decodeEntry reads one tensor's description; the offset is relative to the data.
func decodeEntry(dec *json.Decoder, name string) (entry, error) {
	var d struct {
		DType   string   `json:"dtype"`
		Shape   []int64  `json:"shape"`
		Offsets *[]int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&d); err != nil {
		return entry{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	lay, ok := safetensorsTypes[d.DType]
	if !ok {
		return entry{}, fmt.Errorf("tensor %q has the unknown type %q", name, d.DType)
	}
	if len(d.Shape) > maxDims {
		return entry{}, fmt.Errorf("tensor %q has %d dimensions", name, len(d.Shape))
	}
	shape := make([]int, len(d.Shape))
	for i, v := range d.Shape {
		if v < 0 || v != int64(int(v)) {
			return entry{}, fmt.Errorf("tensor %q has the dimension %d", name, v)
		}
		shape[i] = int(v)
	}
	size, err := lay.size(shape)
	if err != nil {
		return entry{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	if d.Offsets == nil || len(*d.Offsets) != 2 {
		return entry{}, fmt.Errorf("tensor %q has no data_offsets pair", name)
	}
	begin, end := (*d.Offsets)[0], (*d.Offsets)[1]
	if begin < 0 || end < begin || end-begin != size {
		return entry{}, fmt.Errorf("tensor %q of shape %v and type %s takes %d bytes, but data_offsets are [%d, %d]",
			name, shape, d.DType, size, begin, end)
	}
	if end > 1<<62 { // so that adding the header's length cannot overflow
		return entry{}, fmt.Errorf("tensor %q ends at byte %d", name, end)
	}
	return entry{
		info: Info{
			Name: name, Type: lay.name, DType: lay.dtype, Loadable: lay.ok, Shape: shape, Bytes: size,
		},
		offset: begin,
	}, nil
}
