package model_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"whorl/model/families"
	"whorl/model/nn"
)

// Kinds of values in GGUF's metadata.
const (
	ggufUint32 = 4
	ggufBool   = 7
	ggufString = 8
)

// addKey puts a key in front of the metadata of a GGUF file, and a filler that keeps the
// tensors aligned.
func addKey(t *testing.T, path, name string, kind uint32, value ...byte) {
	t.Helper()
	const align = 32
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	str := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	keys := append(binary.LittleEndian.AppendUint32(str(nil, name), kind), value...)
	keys = binary.LittleEndian.AppendUint32(str(keys, "general.filler"), ggufString)
	keys = str(keys, string(bytes.Repeat([]byte("x"), align-(len(keys)+8)%align)))
	count := binary.LittleEndian.Uint64(raw[16:]) + 2
	out := binary.LittleEndian.AppendUint64(bytes.Clone(raw[:16]), count)
	out = append(append(out, keys...), raw[24:]...)
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// In Granite files the key that elsewhere is a remark switches the rotation.
func TestGraniteWithoutRotation(t *testing.T) {
	for value, kind := range []string{nn.RopeNone, nn.RopeDefault} {
		file := filepath.Join(copyModel(t, "testdata/graniteq"), "model.gguf")
		addKey(t, file, "granite.rope.scaling.finetuned", ggufBool, byte(value))
		ck, err := families.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		if ck.Config.Rope.Kind != kind {
			t.Errorf("finetuned %d: blocks rotate by %q, want %q", value, ck.Config.Rope.Kind, kind)
		}
	}
}

// Files of Qwen3-Coder say that there is no shared expert; one that has any is refused.
func TestSharedExperts(t *testing.T) {
	for _, width := range []byte{0, 64} {
		file := filepath.Join(copyModel(t, "testdata/qwen3moe"), "model.gguf")
		addKey(t, file, "qwen3moe.expert_shared_feed_forward_length", ggufUint32, width, 0, 0, 0)
		ck, err := families.Open(file)
		if err == nil {
			ck.Close()
		}
		if (err == nil) != (width == 0) || err != nil && !strings.Contains(err.Error(), `"qwen3moe.expert_shared_feed_forward_length" is 64`) {
			t.Errorf("a shared expert of %d: %v", width, err)
		}
	}
}

// A Gemma 3 file without the key has no windows, and one rotation.
func TestGemma3WithoutWindows(t *testing.T) {
	file := filepath.Join(copyModel(t, "testdata/gemma3q"), "model.gguf")
	patch(t, file, "gemma3.attention.sliding_window", "gemma4.attention.sliding_window")
	ck, err := families.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for i := range ck.Config.Layers {
		if s := ck.Config.Block(i); s.Window != 0 || s.Rope.Theta != 100000 {
			t.Errorf("block %d has a window of %d and rotates by %+v", i, s.Window, s.Rope)
		}
	}
}
