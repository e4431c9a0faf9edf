package gemma3_test

import (
	"strings"
	"testing"

	"whorl/model"
	"whorl/model/gemma3"
	"whorl/model/nn"
)

// ofOne, ofFour and of27B are what published configurations say of the maths: the smallest
// one in the form of transformers 4, the others from inside a vision model, of which they
// say only what is not transformers' default.
const (
	ofOne = `{"attention_bias":false,"attn_logit_softcapping":null,"final_logit_softcapping":null,"head_dim":256,
	"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,"intermediate_size":6912,"max_position_embeddings":32768,
	"num_attention_heads":4,"num_hidden_layers":26,"num_key_value_heads":1,"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,
	"rope_local_base_freq":10000,"rope_scaling":null,"rope_theta":1000000,"sliding_window":512,"sliding_window_pattern":6,
	"vocab_size":262144,"cache_implementation":"hybrid"}`
	ofFour = `{"architectures":["Gemma3ForConditionalGeneration"],"boi_token_index":255999,"eoi_token_index":256000,
	"eos_token_id":[1,106],"image_token_index":262144,"initializer_range":0.02,"mm_tokens_per_image":256,"model_type":"gemma3",
	"text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,
	"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},"torch_dtype":"bfloat16",
	"transformers_version":"4.50.0.dev0","vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,
	"model_type":"siglip_vision_model","num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,"vision_use_head":false}}`
	of27B = `{"boi_token_index":255999,"model_type":"gemma3","text_config":{"head_dim":128,"hidden_size":5376,
	"intermediate_size":21504,"model_type":"gemma3_text","num_attention_heads":32,"num_hidden_layers":62,
	"num_key_value_heads":16,"query_pre_attn_scalar":168,"rope_scaling":{"factor":8.0,"rope_type":"linear"},
	"sliding_window":1024},"vision_config":{"hidden_size":1152}}`
)

func read(t *testing.T, config string) (model.Config, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	c, err := gemma3.Family().FromJSON(f)
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestPublishedModels(t *testing.T) {
	one, err := read(t, ofOne)
	if err != nil {
		t.Fatal(err)
	}
	global, local := one.Block(5), one.Block(4)
	if global.Window != 0 || global.Rope.Theta != 1e6 || local.Window != 512 || local.Rope.Theta != 1e4 || one.LogitSoftcap != 0 {
		t.Errorf("blocks 5 and 4 are\n%+v\n%+v", global, local)
	}
	four, err := read(t, ofFour)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2560*(8+4+4+8)*256 + 3*2560*10240 + 4*2560 + 2*256); four.BlockParams(0) != want || four.Vocab != 262208 || !four.Tied {
		t.Errorf("%d parameters a block, want %d; %d ids", four.BlockParams(0), want, four.Vocab)
	}
	big, err := read(t, of27B)
	if err != nil {
		t.Fatal(err)
	}
	if big.BlockParams(0) != 412898560 {
		t.Errorf("%d parameters a block", big.BlockParams(0))
	}
	if r := big.Block(5).Rope; !r.Equal(nn.Rope{Kind: nn.RopeLinear, Factor: 8, Theta: 1e6, Dim: 128}) {
		t.Errorf("blocks that see everything rotate by %+v", r)
	}
	if r := big.Block(0).Rope; !r.Equal(nn.Rope{Kind: nn.RopeDefault, Theta: 1e4, Dim: 128}) {
		t.Errorf("blocks with a window rotate by %+v", r)
	}
}

// TestWhatTheLibraryPassesOver: neither version of the model caps scores of attention, and
// the one that sees pictures caps no logits, whatever its text part says.
func TestWhatTheLibraryPassesOver(t *testing.T) {
	text := strings.Replace(ofOne, `"attn_logit_softcapping":null,"final_logit_softcapping":null`, `"attn_logit_softcapping":50,"final_logit_softcapping":30`, 1)
	alone, err := read(t, text)
	if err != nil || alone.Softcap != 0 || alone.LogitSoftcap != 30 {
		t.Errorf("%v; scores are capped at %v, logits at %v", err, alone.Softcap, alone.LogitSoftcap)
	}
	inside, err := read(t, `{"tie_word_embeddings":false,"text_config":`+text+`}`)
	if err != nil || inside.Softcap != 0 || inside.LogitSoftcap != 0 || inside.Tied {
		t.Errorf("%v; inside a vision model, scores are capped at %v, logits at %v; tied: %v", err, inside.Softcap, inside.LogitSoftcap, inside.Tied)
	}
}

// TestAroundTheText: what a model that sees pictures says outside of its text part counts.
func TestAroundTheText(t *testing.T) {
	for field, want := range map[string]string{
		`"quantization_config":{"quant_method":"fp8"}`: "already quantised (fp8)",
		`"mystery":1`: `"mystery" is 1: the gemma3 family does not know it`,
	} {
		if _, err := read(t, strings.Replace(ofFour, `{`, `{`+field+`,`, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", field, err, want)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"attention_bias":false`, `"use_bidirectional_attention":true`, `"use_bidirectional_attention" is true`},
		{`"sliding_window_pattern":6`, `"sliding_window_pattern":0`, `"sliding_window_pattern" is 0`},
		{`"sliding_window_pattern":6`, `"layer_types":["full_attention"]`, `"layer_types" has 1 entries for 26 blocks`},
		{`"rope_scaling":null`, `"rope_parameters":{"chunked_attention":{}}`, `"chunked_attention" is {}`},
		{`"rope_scaling":null`, `"rope_scaling":{"rope_type":"dynamic","factor":2}`, `depends on the length of a session`},
		{`"rope_theta":1000000`, `"mystery":1`, `"mystery" is 1: the gemma3 family does not know it`},
	} {
		if _, err := read(t, strings.Replace(ofOne, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", c.new, err, c.want)
		}
	}
}
