package model_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"whorl/internal/fixture"
	"whorl/model"
)

// smollm2 finds the real model: WHORL_TEST_MODEL, or where `make run` keeps it.
func smollm2(t *testing.T) string {
	t.Helper()
	path := os.Getenv("WHORL_TEST_MODEL")
	if path == "" {
		path = "../models/SmolLM2-135M-Instruct.Q4_1.gguf"
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("not proven: equality with the reference on SmolLM2-135M (no file %s; set WHORL_TEST_MODEL)", path)
	}
	return path
}

func TestSmolLM2EqualsReference(t *testing.T) {
	path := smollm2(t)
	if testing.Short() {
		t.Skip("not proven: equality with the reference on SmolLM2-135M (-short)")
	}
	want := fixture.JSON[ref](t, "testdata/smollm2.json.gz")
	dev := openDevice(t, 2)
	if dev.Info().Tier == "generic" && os.Getenv("WHORL_TEST_SLOW") == "" {
		t.Log("not proven: most of the prompts of SmolLM2-135M (the generic kernels take minutes; set WHORL_TEST_SLOW)")
		want.Scores = want.Scores[:1]
		want.Prompts = want.Prompts[:2]
		for i := range want.Prompts {
			want.Prompts[i].New = want.Prompts[i].New[:6]
		}
	}
	r := newRig(t, path, dev, model.LoadOptions{})
	checkScores(t, r, want)
	checkPrompts(t, r, want.Prompts)
}

func TestSmolLM2Facts(t *testing.T) {
	ck := open(t, smollm2(t))
	cl, err := ck.Class(model.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cl != (model.Class{DType: "f32", Quant: "q4_1"}) {
		t.Errorf("class %+v", cl)
	}
	if ck.Name != "SmolLM2-135M-Instruct.Q4_1" || ck.Config.Layers != 30 || !ck.Config.Tied || ck.Config.MaxPositions != 8192 {
		t.Errorf("%s: %+v", ck.Name, ck.Config)
	}
	if n, ok := ck.Metadata().String("tokenizer.ggml.pre"); !ok || n != "smollm" {
		t.Errorf("pre-tokenizer %q", n)
	}
	if got := ck.BlockParams(0); got != 3540096 {
		t.Errorf("%d parameters a block, want 3540096", got)
	}
	if ck.BytesRead() != 0 {
		t.Errorf("opening read %d bytes of tensors", ck.BytesRead())
	}
	dev := openDevice(t, 1)
	if _, err := ck.LoadBlock(dev, 7, model.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	want, err := ck.BlockBytes(7, model.LoadOptions{})
	if err != nil || ck.BytesRead() != want {
		t.Errorf("%v: a block of %d bytes was loaded by reading %d", err, want, ck.BytesRead())
	}
	if _, err := ck.LoadBlock(dev, 30, model.LoadOptions{}); err == nil {
		t.Error("block 30 of 30 was loaded")
	}
}
