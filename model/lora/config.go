package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"whorl/model"
)

// Limits on what a configuration may claim, far above published adapters.
const (
	maxConfig   = 4 << 20 // bytes; a real one has 1 KB, or 100 KB where it lists every module
	maxRank     = 1 << 14 // published ones go to 512
	maxPatterns = 1 << 16 // entries of target_modules, rank_pattern or alpha_pattern
	maxPattern  = 4096    // bytes of one of those
)

// config is what adapter_config.json says of the maths.
type config struct {
	rank     int
	alpha    float64
	rslora   bool // scale is alpha/sqrt(rank), not alpha/rank
	targets  targets
	excluded names
	ranks    []override
	alphas   []override
}

// override gives modules whose name a pattern matches another rank or alpha. The first
// that matches counts.
type override struct {
	pattern pattern
	value   float64
}

// scale is what multiplies B·A·x of a module of that rank.
func (c *config) scale(module string, rank int) float32 {
	alpha := c.alpha
	if v, ok := find(c.alphas, module); ok {
		alpha = v
	}
	if c.rslora {
		return float32(alpha / math.Sqrt(float64(rank)))
	}
	return float32(alpha / float64(rank))
}

// rankOf is the number of rows that a module's A must have.
func (c *config) rankOf(module string) int {
	if v, ok := find(c.ranks, module); ok {
		return int(v)
	}
	return c.rank
}

func find(list []override, module string) (float64, bool) {
	for _, o := range list {
		if o.pattern.matches(module) {
			return o.value, true
		}
	}
	return 0, false
}

func readConfig(path string) (*config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return parseConfig(path, raw)
}

// parseConfig reads adapter_config.json; where names it in errors.
func parseConfig(where string, raw []byte) (*config, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%s: larger than %d bytes", where, maxConfig)
	}
	f, err := model.ParseFields(where, raw)
	if err != nil {
		return nil, err
	}
	if kind := f.StringOr("peft_type", "none"); kind != "LORA" {
		f.Fail("peft_type", "is %q, which is not supported: only LORA is", kind)
	}
	c := &config{rank: f.IntOr("r", 8), alpha: f.FloatOr("lora_alpha", 8), rslora: f.BoolOr("use_rslora", false)}
	if c.rank < 1 || c.rank > maxRank {
		f.Fail("r", "is %d, want 1 to %d", c.rank, maxRank)
	}
	if !usable(c.alpha) {
		f.Fail("lora_alpha", "is %v, want a number that float32 holds", c.alpha)
	}
	refuse(f)
	c.targets = readTargets(f)
	c.excluded = readNames(f, "exclude_modules")
	c.ranks = readOverrides(f, "rank_pattern", func(v float64) bool {
		return v >= 1 && v <= maxRank && v == math.Trunc(v)
	})
	c.alphas = readOverrides(f, "alpha_pattern", usable)
	f.Skip(bookkeeping...)
	f.SkipOff()
	f.Rest("LoRA")
	return c, f.Err()
}

// bookkeeping are fields that alter no result of inference: notes, training settings, and
// parameters of features that refuse lets pass only switched off.
var bookkeeping = []string{
	"task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode", "lora_dropout",
	"megatron_core", "qalora_group_size", "eva_config", "loftq_config", "corda_config", "lora_ga_config",
}

// refuse names what this program does not compute.
func refuse(f *model.Fields) {
	f.Only("bias", `"none"`)
	f.Only("fan_in_fan_out", "false")
	for _, name := range []string{"use_dora", "use_qalora", "lora_bias"} {
		f.Only(name, "false")
	}
	for _, name := range []string{
		"modules_to_save", "trainable_token_indices", "alora_invocation_tokens", "layer_replication", "target_parameters",
	} {
		f.Only(name, "[]")
	}
	// The others initialise A and B by rewriting the weights of the base model, unless
	// the adapter was converted when it was saved, which sets the field to true.
	f.Only("init_lora_weights", "true", "false", `"gaussian"`, `"eva"`, `"orthogonal"`)
}

// usable tells numbers that keep their sense in float32.
func usable(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= math.MaxFloat32 }

// readOverrides reads an object of pattern -> number, in the order of the file, which the
// library follows too.
func readOverrides(f *model.Fields, name string, valid func(float64) bool) []override {
	raw := f.Raw(name)
	if raw == nil {
		return nil
	}
	var list []override
	err := eachMember(raw, func(key string, v float64) error {
		p, err := compileSuffix(key)
		if err != nil {
			return err
		}
		if !valid(v) {
			return fmt.Errorf("%q is given %v", key, v)
		}
		if list = append(list, override{p, v}); len(list) > maxPatterns {
			return fmt.Errorf("more than %d patterns", maxPatterns)
		}
		return nil
	})
	if err != nil {
		f.Fail(name, "is not usable: %v", err)
	}
	return list
}

// eachMember visits the members of a JSON object of numbers in order.
func eachMember(raw []byte, visit func(key string, v float64) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("want an object of numbers")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		var v *float64
		if err := dec.Decode(&v); err != nil {
			return err
		}
		key, _ := t.(string) // keys of an object are strings
		if v == nil {
			return fmt.Errorf("%q is null", key)
		}
		if err := visit(key, *v); err != nil {
			return err
		}
	}
	return nil
}
