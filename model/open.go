package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"whorl/model/weights"
)

// maxConfig bounds config.json and generation_config.json; real ones have a few KB.
const maxConfig = 4 << 20

// Open opens a local model of one of the families: a folder with config.json and
// safetensors, or a .gguf file; of a split one any part, and of either the folder that holds
// nothing else. It reads headers only.
func Open(path string, families []Family) (*Checkpoint, error) {
	return OpenSource(context.Background(), weights.Source{Path: path}, families)
}

// OpenSource opens a model as Open does, of whose weights parts may still have to be brought:
// headers are, and Checkpoint.Fetch brings the rest.
func OpenSource(ctx context.Context, src weights.Source, families []Family) (*Checkpoint, error) {
	path, dir, err := Locate(src.Path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	src.Path = path
	var c *Checkpoint
	switch {
	case dir:
		c, err = openFolder(ctx, src, families)
	case isGGUF(path):
		c, err = openGGUF(ctx, src, families)
	case strings.HasSuffix(path, ".safetensors"):
		err = fmt.Errorf("%s: give the folder that holds this file and config.json", path)
	default:
		err = fmt.Errorf("%s is neither a model folder nor a GGUF file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	return c, nil
}

// Locate settles what a path means: a folder of safetensors (dir is true then), or a file.
// The GGUF file of a folder stands for the folder, unless there is a configuration with
// safetensors beside it. The error names the GGUF files between which to choose.
func Locate(path string) (_ string, dir bool, err error) {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return path, false, err
	}
	if _, err := os.Stat(filepath.Join(path, configName)); err == nil && weights.HasSafetensors(path) {
		return path, true, nil
	}
	file, err := weights.FindGGUF(path)
	if err != nil || file != "" {
		return file, false, err
	}
	return path, true, nil
}

const configName = "config.json"

// isGGUF looks at the name and, for other names, at the first bytes.
func isGGUF(path string) bool {
	if strings.HasSuffix(path, ".gguf") {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && bytes.Equal(magic, []byte("GGUF"))
}

// folderConfig reads the text of a folder's config.json.
func folderConfig(dir string) (where string, raw []byte, err error) {
	where = filepath.Join(dir, configName)
	raw, err = readConfig(where)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s holds no config.json: want a model folder or a .gguf file", dir)
	}
	return where, raw, err
}

// configOf reads the text of a config.json; where names it in errors.
func configOf(where string, raw []byte, families []Family) (fam Family, cfg Config, fields *Fields, err error) {
	if fields, err = ParseFields(where, raw); err != nil {
		return
	}
	if fam, err = familyOf(fields, families); err != nil {
		return
	}
	if cfg, err = fam.FromJSON(fields); err != nil {
		return
	}
	if err = cfg.Validate(); err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return
}

func openFolder(ctx context.Context, src weights.Source, families []Family) (*Checkpoint, error) {
	dir := src.Path
	where, raw, err := folderConfig(dir)
	if err != nil {
		return nil, err
	}
	fam, cfg, fields, err := configOf(where, raw, families)
	if err != nil {
		return nil, err
	}
	eos, err := folderEOS(dir, fields)
	if err != nil {
		return nil, err
	}
	file, err := src.OpenSafetensors(ctx)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	return finish(&Checkpoint{
		Name: filepath.Base(abs), Path: dir, TokenizerDir: dir, Config: cfg,
		file: file, names: fam.SafetensorsNames, canon: fam.SafetensorsNames, eos: eos,
	})
}

func openGGUF(ctx context.Context, src weights.Source, families []Family) (*Checkpoint, error) {
	path := src.Path
	file, err := src.OpenGGUF(ctx)
	if err != nil {
		return nil, err
	}
	c, err := checkpointOfGGUF(path, file, families)
	if err != nil {
		file.Close()
		return nil, err
	}
	return finish(c)
}

func checkpointOfGGUF(path string, file *weights.File, families []Family) (*Checkpoint, error) {
	arch, ok := file.Metadata().String("general.architecture")
	if !ok {
		return nil, fmt.Errorf("%s: metadata key \"general.architecture\" is missing", path)
	}
	i := slices.IndexFunc(families, func(f Family) bool { return f.GGUF != "" && f.GGUF == arch })
	if i < 0 {
		var known []string
		for _, f := range families {
			if f.GGUF != "" {
				known = append(known, f.GGUF)
			}
		}
		return nil, fmt.Errorf("%s: unknown architecture %q: supported are %s", path, arch, strings.Join(known, ", "))
	}
	keys := newKeys(arch, file)
	cfg, err := families[i].FromGGUF(keys)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Checkpoint{
		Name: weights.GGUFName(path), Path: path, Config: cfg,
		file: file, names: families[i].GGUFNames, canon: families[i].SafetensorsNames,
		eos: ggufEOS(file.Metadata()),
	}, nil
}

// finish checks the tensors; it owns the file.
func finish(c *Checkpoint) (*Checkpoint, error) {
	c.Source = c.file.Format()
	if err := c.check(); err != nil {
		c.file.Close()
		return nil, err
	}
	return c, nil
}

// familyOf finds the family by the config's list of architectures, or by its model type.
func familyOf(f *Fields, families []Family) (Family, error) {
	var known []string
	archs := f.Strings("architectures")
	kind := f.StringOr("model_type", "")
	if err := f.Err(); err != nil {
		return Family{}, err
	}
	for _, fam := range families {
		known = append(known, fam.Architectures...)
		for _, a := range archs {
			if slices.Contains(fam.Architectures, a) {
				return fam, agree(f, a, kind, fam, families)
			}
		}
		if len(archs) == 0 && kind != "" && kind == fam.ModelType {
			return fam, nil
		}
	}
	name := strings.Join(archs, ", ")
	if name == "" {
		name = kind
	}
	return Family{}, fmt.Errorf("%s: unknown architecture %q: supported are %s", f.where, name, strings.Join(known, ", "))
}

// agree refuses a model type that is another family's than the architecture's: transformers
// goes by the type, and the two may differ in what no tensor shows, such as windows.
func agree(f *Fields, arch, kind string, fam Family, families []Family) error {
	other := slices.ContainsFunc(families, func(o Family) bool { return o.ModelType == kind })
	if kind != fam.ModelType && other {
		f.Fail("model_type", "is %q, but architectures has %s, a model of type %q: correct one of them", kind, arch, fam.ModelType)
	}
	return f.Err()
}

// folderEOS reads the ids that end an answer: those of generation_config.json if it has
// any, else those of config.json.
func folderEOS(dir string, config *Fields) ([]int32, error) {
	where := filepath.Join(dir, "generation_config.json")
	raw, err := readConfig(where)
	if err == nil {
		fields, err := ParseFields(where, raw)
		if err != nil {
			return nil, err
		}
		if fields.Has("eos_token_id") {
			return eosOf(fields)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return eosOf(config)
}

// eosOf reads eos_token_id: a number, a list of numbers, or absent.
func eosOf(f *Fields) ([]int32, error) {
	raw, ok := f.raw["eos_token_id"]
	if !ok {
		return nil, nil
	}
	var one int32
	if json.Unmarshal(raw, &one) == nil {
		return []int32{one}, nil
	}
	var many []int32
	if json.Unmarshal(raw, &many) != nil {
		f.Fail("eos_token_id", "is %s, want an id or a list of ids", clip(raw))
		return nil, f.Err()
	}
	return many, nil
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, maxConfig)
	}
	return raw, nil
}
