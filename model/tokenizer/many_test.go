package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"maps"
	"slices"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// manyGolden has the checksums of what every tokenizer makes of over a
// thousand strings; `testdata/make.py show NAME TEXT` prints what one stands for.
type manyGolden struct {
	Texts    []string `json:"texts"` // beside those of texts.json.gz
	Variants map[string]struct {
		Base   string                     `json:"base"`
		Change map[string]json.RawMessage `json:"change"`
	} `json:"variants"`
	Checksums map[string]string `json:"checksums"`
	Damaged   []struct {
		Bytes []int  `json:"bytes"`
		Text  string `json:"text"`
	} `json:"damaged"`
}

func readMany(t testing.TB) (manyGolden, []string) {
	t.Helper()
	g := readGolden[manyGolden](t, "many")
	texts := append(readTexts(t), g.Texts...)
	if len(texts) < 1000 {
		t.Fatalf("%d texts, want 1,000 or more", len(texts))
	}
	return g, texts
}

// spec is the tokenizer.json of a golden or of a variant of one.
func (g *manyGolden) spec(t testing.TB, name string) []byte {
	t.Helper()
	variant, ok := g.Variants[name]
	if !ok {
		return readGolden[golden](t, name).Tokenizer
	}
	base := readGolden[golden](t, variant.Base)
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(base.Tokenizer, &spec); err != nil {
		t.Fatal(err)
	}
	maps.Copy(spec, variant.Change)
	return asJSON(t, spec)
}

// checksum is what many.json.gz keeps of a text: encodings, then decodings.
func checksum(plain, parsed []int32, shown, skipped string) (ids, text uint16) {
	var b bytes.Buffer
	for _, id := range slices.Concat(plain, []int32{-1}, parsed) {
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
	}
	return uint16(crc32.ChecksumIEEE(b.Bytes())), uint16(crc32.ChecksumIEEE([]byte(shown + "\x00" + skipped)))
}

// compareMany checks a tokenizer against the checksums of name.
func compareMany(t *testing.T, tok *Tokenizer, g *manyGolden, name string, texts []string, skip func(string) bool) {
	t.Helper()
	sums, err := base64.StdEncoding.DecodeString(g.Checksums[name])
	if err != nil || len(sums) != 4*len(texts) {
		t.Fatalf("%s: %d bytes of checksums for %d texts, %v", name, len(sums), len(texts), err)
	}
	d, cases := differences{t: t}, 0
	for i, text := range texts {
		if skip != nil && skip(text) {
			continue
		}
		cases++
		plain := encode(t, tok, text, EncodeOptions{})
		parsed := encode(t, tok, text, EncodeOptions{Special: true, ParseSpecial: true})
		shown, skipped := tok.Decode(parsed, false), tok.Decode(parsed, true)
		ids, decoded := checksum(plain, parsed, shown, skipped)
		if ids != binary.LittleEndian.Uint16(sums[4*i:]) {
			d.add("text %d: ids of %q: %v, with special tokens %v", i, text, plain, parsed)
		}
		if decoded != binary.LittleEndian.Uint16(sums[4*i+2:]) {
			d.add("text %d: %v decoded: %q, without special tokens %q", i, parsed, shown, skipped)
		}
		checkStream(t, tok, parsed, false, shown)
		checkStream(t, tok, parsed, true, skipped)
	}
	d.done(2 * cases)
	if cases < 1000 {
		t.Errorf("only %d texts compared, want 1,000 or more", cases)
	}
}

func TestFamiliesEqualReference(t *testing.T) {
	g, texts := readMany(t)
	for _, name := range slices.Sorted(maps.Keys(g.Checksums)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := LoadJSON(g.spec(t, name))
			if err != nil {
				t.Fatal(err)
			}
			compareMany(t, tok, &g, name, texts, nil)
		})
	}
}

// TestDamagedText: bytes that are not UTF-8 count as the replacement
// characters that the reference's language puts there.
func TestDamagedText(t *testing.T) {
	g, _ := readMany(t)
	for _, name := range []string{"gpt2", "llama2", "phi4mini"} {
		tok, _ := loadGolden(t, name)
		for _, c := range g.Damaged {
			raw := make([]byte, len(c.Bytes))
			for i, b := range c.Bytes {
				raw[i] = byte(b)
			}
			got, want := encode(t, tok, string(raw), EncodeOptions{}), encode(t, tok, c.Text, EncodeOptions{})
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q gives %v, %q gives %v", name, raw, got, c.Text, want)
			}
		}
	}
}

// classGolden is what the reference knows of each code point.
type classGolden struct {
	Classes map[string][][2]rune // the code points of each class
	Forms   map[string]uint32    // checksum of all of them behind a mark, in a normal form
}

func readClasses(t testing.TB) classGolden {
	t.Helper()
	return readGolden[classGolden](t, "classes")
}

// TestFormsEqualReference goes through all code points as well.
func TestFormsEqualReference(t *testing.T) {
	forms := readClasses(t).Forms
	for name, form := range map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD} {
		normal, sum := formNormalizer(form), crc32.NewIEEE()
		for c := range rune(unicode.MaxRune + 1) {
			if c >= 0xD800 && c < 0xE000 {
				continue
			}
			s, err := normal("\u0345" + string(c))
			if err != nil {
				t.Fatal(err)
			}
			sum.Write([]byte(s))
		}
		if want, ok := forms[name]; !ok || sum.Sum32() != want {
			t.Errorf("%s of all code points: checksum %d, want %d", name, sum.Sum32(), want)
		}
	}
}

// TestClassesEqualReference goes through all code points.
func TestClassesEqualReference(t *testing.T) {
	ranges := readClasses(t).Classes
	checks := map[string]func(rune) bool{
		`\p{L}`:       func(r rune) bool { return classOf(r) == letter },
		`\p{N}`:       func(r rune) bool { return classOf(r) == number },
		`\s`:          func(r rune) bool { return classOf(r) == space },
		upperRun:      isUpperish,
		lowerRun:      isLowerish,
		"Digits":      isNumeric,
		"Punctuation": isPunctuation,
	}
	if len(ranges) != len(checks) {
		t.Fatalf("%d classes, want %d", len(ranges), len(checks))
	}
	for name, is := range checks {
		want := map[rune]bool{}
		for _, r := range ranges[name] {
			for c := r[0]; c <= r[1]; c++ {
				want[c] = true
			}
		}
		d := differences{t: t}
		for c := range rune(unicode.MaxRune + 1) {
			if surrogate := c >= 0xD800 && c < 0xE000; !surrogate && is(c) != want[c] {
				d.add("%s of %U: %v, want %v", name, c, is(c), want[c])
			}
		}
		d.done(unicode.MaxRune)
	}
}
