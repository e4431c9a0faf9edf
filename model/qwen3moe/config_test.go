package qwen3moe_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/qwen3moe"
)

// What the published config.json of Qwen3-30B-A3B says of the maths.
const of30B = `{"architectures":["Qwen3MoeForCausalLM"],"attention_bias":false,"decoder_sparse_step":1,"head_dim":128,"hidden_act":"silu",
	"hidden_size":2048,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,"mlp_only_layers":[],
	"model_type":"qwen3_moe","moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,"num_experts":128,
	"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,"output_router_logits":false,"rms_norm_eps":1e-06,
	"rope_scaling":null,"rope_theta":1000000.0,"router_aux_loss_coef":0.001,"sliding_window":null,"tie_word_embeddings":false,
	"use_sliding_window":false,"vocab_size":151936}`

// ofCoder adds what the files of Qwen3-Coder say besides.
var ofCoder = strings.Replace(of30B, `{`, `{"qkv_bias":false,"shared_expert_intermediate_size":0,"use_qk_norm":true,`, 1)

// And that of Qwen3-235B-A22B.
const of235B = `{"attention_bias":false,"decoder_sparse_step":1,"head_dim":128,"hidden_size":4096,"intermediate_size":12288,
	"max_position_embeddings":40960,"max_window_layers":94,"mlp_only_layers":[],"model_type":"qwen3_moe","moe_intermediate_size":1536,
	"norm_topk_prob":true,"num_attention_heads":64,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":94,
	"num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":null,"use_sliding_window":false,"vocab_size":151936}`

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := qwen3moe.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestPublishedModels(t *testing.T) {
	for _, m := range []struct {
		config string
		params int64
	}{{of30B, 623120640}, {ofCoder, 623120640}, {of235B, 2487755008}} {
		c, err := read(t, m.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.BlockParams(0); got != m.params {
			t.Errorf("%d parameters a block, want %d", got, m.params)
		}
		if c.Experts != 128 || c.TopK != 8 || !c.Renormalise || c.Window != 0 || !c.QKNorm || c.AttnBias || c.HeadDim != 128 || c.Others != nil {
			t.Errorf("%+v", c)
		}
	}
}

// TestBlocks names the mixtures of a model of eight blocks: M, or d for a dense one.
func TestBlocks(t *testing.T) {
	for _, c := range []struct{ step, dense, experts, want string }{
		{"1", "[]", "128", "MMMMMMMM"},
		{"1", "null", "128", "MMMMMMMM"},
		{"2", "[]", "128", "dMdMdMdM"},
		{"3", "[5]", "128", "ddMddddd"},
		{"1", "[0,7,99]", "128", "dMMMMMMd"},
		{"1", "[]", "0", "dddddddd"},
	} {
		cfg, err := read(t, strings.NewReplacer(`"decoder_sparse_step":1`, `"decoder_sparse_step":`+c.step, `"mlp_only_layers":[]`, `"mlp_only_layers":`+c.dense,
			`"num_experts":128`, `"num_experts":`+c.experts, `"num_hidden_layers":48`, `"num_hidden_layers":8`).Replace(of30B))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range cfg.Layers {
			switch s := cfg.Block(i); {
			case s.Experts == 128 && s.FFN == 768 && s.TopK == 8:
				got += "M"
			case s.Experts == 0 && s.FFN == 6144 && s.TopK == 0 && !s.Renormalise:
				got += "d"
			default:
				got += "?"
			}
		}
		if got != c.want {
			t.Errorf("step %s, dense %s, %s experts: %s, want %s", c.step, c.dense, c.experts, got, c.want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"use_sliding_window":false`, `"use_sliding_window":true`, ""}, // null is no window
		{`"sliding_window":null`, `"sliding_window":4096`, ""},          // that is off
		{`"sliding_window":null,"tie_word_embeddings":false,
	"use_sliding_window":false`, `"sliding_window":64,"use_sliding_window":true`, `"max_window_layers" is 48 beside a window`},
		{`"decoder_sparse_step":1`, `"decoder_sparse_step":0`, `"decoder_sparse_step" is 0, want at least 1`},
		{`"mlp_only_layers":[]`, `"mlp_only_layers":["a"]`, `"mlp_only_layers" is ["a"], want a list`},
		{`"num_experts_per_tok":8`, `"num_experts_per_tok":129`, "129 of 128 experts for a row"},
		{`"moe_intermediate_size":768`, `"moe_intermediate_size":0`, "the intermediate size is 0"},
		{`"num_experts":128`, `"num_experts":128,"num_local_experts":64`, `"num_local_experts" is 64, but num_experts is 128`},
		{`"rope_scaling":null`, `"shared_expert_intermediate_size":5`, `"shared_expert_intermediate_size" is 5, which is not supported`},
	} {
		_, err := read(t, strings.Replace(of30B, c.old, c.new, 1))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want an error with %q", c.new, err, c.want)
		}
	}
}
