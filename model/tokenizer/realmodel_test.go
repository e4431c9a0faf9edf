package tokenizer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// realVocab reads the vocabulary of SmolLM2-135M-Instruct, or skips the test.
func realVocab(t testing.TB, unproven string) GGUFVocab {
	t.Helper()
	path := os.Getenv("WHORL_TEST_MODEL")
	if path == "" {
		path = filepath.Join("..", "..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("not proven: %s (no %s; WHORL_TEST_MODEL names the file)", unproven, filepath.Base(path))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return vocabOf(readMetadata(t, bufio.NewReaderSize(f, 1<<20)))
}

// vocabOf collects what metadata says of a vocabulary.
func vocabOf(meta map[string]any) GGUFVocab {
	const prefix = "tokenizer.ggml."
	id := func(key string) int32 {
		if v, ok := meta[prefix+key].(int64); ok {
			return int32(v)
		}
		return -1
	}
	flag := func(key string) *bool {
		if v, ok := meta[prefix+key].(bool); ok {
			return &v
		}
		return nil
	}
	v := GGUFVocab{
		BOS: id("bos_token_id"), EOS: id("eos_token_id"), UNK: id("unknown_token_id"), PAD: id("padding_token_id"), EOT: -1, EOM: -1,
		AddBOS: flag("add_bos_token"), AddEOS: flag("add_eos_token"), AddSpacePrefix: flag("add_space_prefix"),
	}
	v.Name, _ = meta["general.name"].(string)
	v.Model, _ = meta[prefix+"model"].(string)
	v.Pre, _ = meta[prefix+"pre"].(string)
	v.ChatTemplate, _ = meta["tokenizer.chat_template"].(string)
	list := func(key string) []any {
		l, _ := meta[prefix+key].([]any)
		return l
	}
	for _, s := range list("tokens") {
		v.Tokens = append(v.Tokens, s.(string))
	}
	for _, s := range list("merges") {
		v.Merges = append(v.Merges, s.(string))
	}
	for _, n := range list("token_type") {
		v.Types = append(v.Types, int32(n.(int64)))
	}
	for _, n := range list("scores") {
		v.Scores = append(v.Scores, float32(n.(float64)))
	}
	return v
}

// readMetadata reads the key-value part of a GGUF file that is known to be
// sound: the real reader is in model/weights, which this package may not know.
func readMetadata(t testing.TB, r io.Reader) map[string]any {
	t.Helper()
	read := func(into any) {
		if err := binary.Read(r, binary.LittleEndian, into); err != nil {
			t.Fatal(err)
		}
	}
	number := func(size int) int64 {
		var b [8]byte
		if _, err := io.ReadFull(r, b[:size]); err != nil {
			t.Fatal(err)
		}
		return int64(binary.LittleEndian.Uint64(b[:]))
	}
	text := func() string {
		b := make([]byte, number(8))
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var value func(kind uint32) any
	value = func(kind uint32) any {
		switch kind {
		case 0, 1:
			return number(1)
		case 2, 3:
			return number(2)
		case 4, 5:
			return number(4)
		case 6:
			return float64(math.Float32frombits(uint32(number(4))))
		case 7:
			return number(1) != 0
		case 8:
			return text()
		case 9:
			var of uint32
			read(&of)
			list := make([]any, number(8))
			for i := range list {
				list[i] = value(of)
			}
			return list
		case 10, 11, 12:
			return number(8)
		}
		t.Fatalf("metadata of kind %d", kind)
		return nil
	}
	var head struct {
		Magic, Version uint32
		Tensors, Pairs uint64
	}
	read(&head)
	meta := map[string]any{}
	for range head.Pairs {
		key := text()
		var kind uint32
		read(&kind)
		meta[key] = value(kind)
	}
	return meta
}

func TestSmolLM2EqualsReference(t *testing.T) {
	v := realVocab(t, "ids of the real SmolLM2 vocabulary")
	began := time.Now()
	tok, err := FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tokens loaded in %v", tok.VocabSize(), time.Since(began))
	want := readGolden[struct {
		Plain  [][]int32 `json:"plain"`
		Parsed [][]int32 `json:"parsed"`
		Chats  []struct {
			Messages []Message `json:"messages"`
			IDs      []int32   `json:"ids"`
		} `json:"chats"`
	}](t, "smollm2-135m")
	texts := readTexts(t)
	d := differences{t: t}
	for i, text := range texts {
		got := encode(t, tok, text, EncodeOptions{})
		if !slices.Equal(got, want.Plain[i]) {
			d.add("Encode(%q)\n got %v\nwant %v", text, got, want.Plain[i])
		}
		if back := tok.Decode(got, false); back != text {
			d.add("%q came back as %q", text, back)
		}
		if got := encode(t, tok, text, EncodeOptions{ParseSpecial: true}); !slices.Equal(got, want.Parsed[i]) {
			d.add("Encode(%q) with special tokens\n got %v\nwant %v", text, got, want.Parsed[i])
		}
	}
	for _, c := range want.Chats {
		got, err := tok.EncodeChat(c.Messages, true)
		if err != nil || !slices.Equal(got, c.IDs) {
			d.add("EncodeChat(%v)\n got %v, %v\nwant %v", c.Messages, got, err, c.IDs)
		}
	}
	d.done(3*len(texts) + len(want.Chats))
	if len(want.Chats) == 0 {
		t.Error("the golden has no chats")
	}
	if got := tok.EOGs(); !slices.Equal(got, []int32{0, 2}) {
		t.Errorf("EOGs %v, want 0 (<|endoftext|>) and 2 (<|im_end|>)", got)
	}
}

func BenchmarkLoadSmolLM2(b *testing.B) {
	v := realVocab(b, "time to load the real SmolLM2 vocabulary")
	for b.Loop() {
		if _, err := FromGGUF(v); err != nil {
			b.Fatal(err)
		}
	}
}
