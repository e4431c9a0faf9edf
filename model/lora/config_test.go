package lora

import (
	"strings"
	"testing"
)

const plain = `"peft_type": "LORA", "r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]`

func TestConfigScalesAndRanks(t *testing.T) {
	for _, tt := range []struct {
		name, json, module string
		rank               int
		scale              float32
	}{
		{"plain", plain, "model.layers.0.self_attn.q_proj", 4, 1.5},
		{"rank-stabilised", plain + `, "use_rslora": true`, "model.layers.0.self_attn.q_proj", 4, 3},
		{"rank of a suffix", plain + `, "rank_pattern": {"q_proj": 2}`, "model.layers.0.self_attn.q_proj", 2, 3},
		{"rank of another", plain + `, "rank_pattern": {"q_proj": 2}`, "model.layers.0.self_attn.v_proj", 4, 1.5},
		{"a suffix begins at a dot", plain + `, "rank_pattern": {"proj": 2}`, "model.layers.0.self_attn.q_proj", 4, 1.5},
		{"the first pattern counts", plain + `, "rank_pattern": {"z": 9, ".*0.*q_proj": 3, "q_proj": 2}`, "model.layers.0.self_attn.q_proj", 3, 2},
		{"alpha of a pattern", plain + `, "alpha_pattern": {"^model.layers.0.self_attn.q_proj": 1e1}`, "model.layers.0.self_attn.q_proj", 4, 2.5},
		{"no fields: PEFT's defaults", `"peft_type": "LORA", "target_modules": "all-linear"`, "x", 8, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parseConfig("adapter_config.json", []byte("{"+tt.json+"}"))
			if err != nil {
				t.Fatal(err)
			}
			rank := c.rankOf(tt.module)
			if scale := c.scale(tt.module, rank); rank != tt.rank || scale != tt.scale {
				t.Errorf("rank %d, scale %v, want %d, %v", rank, scale, tt.rank, tt.scale)
			}
		})
	}
}

// What matches is what peft.tuners.tuners_utils.check_target_module_exists says.
func TestTargets(t *testing.T) {
	const q0, q1, up1, bare = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj", "layers.1.mlp.up_proj"
	for _, tt := range []struct {
		json string
		want []string // of q0, q1, up1, bare and the LM head
	}{
		{`"target_modules": ["q_proj"]`, []string{q0, q1}},
		{`"target_modules": ["mlp.up_proj"]`, []string{up1, bare}},
		{`"target_modules": ["_proj"]`, nil},
		{`"target_modules": ["model.layers.1.mlp.up_proj", "lm_head"]`, []string{up1, "lm_head"}},
		{`"target_modules": ".*q_proj"`, []string{q0, q1}},
		{`"target_modules": "q_proj"`, nil},
		{`"target_modules": "model\\.layers\\.1\\..*"`, []string{q1, up1}},
		{`"target_modules": "All-Linear"`, []string{q0, q1, up1, bare}},
		{`"target_modules": "all-linear", "exclude_modules": ["up_proj"]`, []string{q0, q1}},
		{`"target_modules": "all-linear", "exclude_modules": ".*self_attn.*"`, []string{up1, bare}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": 1`, []string{q1, up1}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [0]`, []string{q0}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": []`, []string{q0, q1, up1, bare}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1], "layers_pattern": "layers"`, []string{q1, up1, bare}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1], "layers_pattern": ["h", "layers"]`, []string{q1, up1, bare}},
		{`"target_modules": ["q_proj", "up_proj"], "layers_to_transform": [1], "layers_pattern": "h"`, nil},
		// A full name is not asked for its block.
		{`"target_modules": ["q_proj", "model.layers.1.mlp.up_proj"], "layers_to_transform": [0]`, []string{q0, up1}},
	} {
		c, err := parseConfig("adapter_config.json", []byte(`{"peft_type": "LORA", `+tt.json+"}"))
		if err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		var got []string
		for _, m := range []string{q0, q1, up1, bare, "lm_head"} {
			if c.changes(m, m != "lm_head") {
				got = append(got, m)
			}
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%s: matches %v, want %v", tt.json, got, tt.want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ json, want string }{
		{`"r": 4`, `field "peft_type" is "none"`},
		{`"peft_type": "IA3"`, `field "peft_type" is "IA3", which is not supported: only LORA is`},
		{`"peft_type": "LORA"`, `field "target_modules" is missing or empty`},
		{`"peft_type": "LORA", "target_modules": [1]`, `field "target_modules" is neither`},
		{`"peft_type": "LORA", "target_modules": "(?!x).*"`, `the pattern "(?!x).*" is not supported`},
		{`"peft_type": "LORA", "target_modules": "x*", "layers_to_transform": [1]`, `field "layers_to_transform"`},
		{plain + `, "r": 0`, `field "r" is 0`},
		{plain + `, "r": 100000`, `field "r" is 100000`},
		{plain + `, "lora_alpha": 1e60`, `field "lora_alpha" is 1e+60`},
		{plain + `, "use_dora": true`, `field "use_dora" is true, which is not supported`},
		{plain + `, "bias": "lora_only"`, `field "bias" is "lora_only", which is not supported`},
		{plain + `, "lora_bias": true`, `field "lora_bias" is true`},
		{plain + `, "modules_to_save": ["embed_tokens"]`, `field "modules_to_save" is ["embed_tokens"], which is not supported`},
		{plain + `, "target_parameters": ["mlp.experts.gate_up_proj"]`, `field "target_parameters"`},
		{plain + `, "fan_in_fan_out": true`, `field "fan_in_fan_out" is true`},
		{plain + `, "init_lora_weights": "pissa"`, `field "init_lora_weights" is "pissa", which is not supported`},
		{plain + `, "layer_replication": [[0, 4], [2, 5]]`, `field "layer_replication"`},
		{plain + `, "kasa_config": {"beta": 1}`, `field "kasa_config" is {"beta": 1}`},
		{plain + `, "use_new_maths": true`, `field "use_new_maths" is true`},
		{plain + `, "rank_pattern": {"x": 1.5}`, `field "rank_pattern" is not usable: "x" is given 1.5`},
		{plain + `, "rank_pattern": {"x": null}`, `"x" is null`},
		{plain + `, "rank_pattern": ["x"]`, `want an object of numbers`},
		{plain + `, "alpha_pattern": {"(": 1}`, `the pattern "(" is not supported`},
	} {
		_, err := parseConfig("adapter_config.json", []byte("{"+tt.json+"}"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.json, err, tt.want)
		}
	}
	for _, off := range []string{
		`"use_new_maths": false`, `"new_config": null`, `"new_list": []`, `"modules_to_save": null`, `"loftq_config": {"loftq_bits": 4}`,
	} {
		if _, err := parseConfig("adapter_config.json", []byte("{"+plain+", "+off+"}")); err != nil {
			t.Errorf("%s: %v", off, err)
		}
	}
}

// FuzzConfig: whatever the bytes, there is an error or an answer for every module.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("{" + plain + "}"))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": "all-linear", "rank_pattern": {"a.*": 2}, "alpha_pattern": {"b": 1}}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": ["h", "(a)|b"]}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": "(a|b*)*", "exclude_modules": ["", "."]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseConfig("adapter_config.json", raw)
		if err != nil {
			return
		}
		for _, m := range []string{"", "model.layers.1.self_attn.q_proj", "h.1.a"} {
			c.changes(m, true)
			if rank := c.rankOf(m); rank < 1 || rank > maxRank {
				t.Fatalf("rank %d", rank)
			}
			c.scale(m, c.rankOf(m))
		}
	})
}
