package swarm

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"whorl/content"
)

func manifest() Manifest {
	return Manifest{
		Name: "SmolLM2-135M-Instruct", Revision: "r1", Blocks: 30, Hidden: 576,
		Class: Class{ConfigHash: "0123456789abcdef", DType: "f32", Quant: "q4_1", KVDType: "f32", Arithmetic: "exact1"},
		Roots: roots(30), Head: content.Sum([]byte("head")), Tokenizer: content.Sum([]byte("tokenizer")), Share: true,
	}
}

func roots(n int) (r Roots) {
	for i := range n {
		r = append(r, content.Sum([]byte{byte(i), byte(i >> 8)}))
	}
	return r
}

// The UID is agreed between nodes of all versions: a change splits every swarm.
func TestUIDGolden(t *testing.T) {
	if got := manifest().UID(); got != "3fa0308c3e9570d07db55489d4647d91b8b2c7a6195d880c52abe584e35e771b" {
		t.Errorf("UID %s", got)
	}
	seen := map[UID]string{manifest().UID(): "none"}
	for name, change := range map[string]func(*Manifest){
		"name": func(m *Manifest) { m.Name += "x" }, "revision": func(m *Manifest) { m.Revision = "" },
		"blocks": func(m *Manifest) { m.Blocks++ }, "hidden": func(m *Manifest) { m.Hidden++ },
		"config": func(m *Manifest) { m.Class.ConfigHash = "x" }, "dtype": func(m *Manifest) { m.Class.DType = "bf16" },
		"quant": func(m *Manifest) { m.Class.Quant = "none" }, "kv": func(m *Manifest) { m.Class.KVDType = "f16" },
		"arithmetic": func(m *Manifest) { m.Class.Arithmetic = "gpu" }, "a root": func(m *Manifest) { m.Roots[29][31]++ },
		"roots": func(m *Manifest) { m.Roots = nil }, "head": func(m *Manifest) { m.Head[0]++ },
		"tokenizer": func(m *Manifest) { m.Tokenizer = content.Hash{} }, "share": func(m *Manifest) { m.Share = false }, "namespace": func(m *Manifest) { m.Namespace = "mine" }, "another namespace": func(m *Manifest) { m.Namespace = "yours" },
	} {
		m := manifest()
		change(&m)
		if other, ok := seen[m.UID()]; ok {
			t.Errorf("changing %s gives the UID of changing %s", name, other)
		}
		seen[m.UID()] = name
	}
}

// The canonical form is what UIDs are hashes of. These bytes are agreed between nodes.
func TestManifestGolden(t *testing.T) {
	m := manifest()
	m.Blocks, m.Roots = 2, m.Roots[:2]
	want, err := os.ReadFile("testdata/manifest_v2.json")
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.TrimSuffix(want, []byte("\n"))
	if got := m.Encode(); !bytes.Equal(got, want) {
		t.Errorf("a manifest is now written as\n%s, want\n%s", got, want)
	}
	if m.UID() != UID(content.Sum(want).String()) {
		t.Errorf("UID %s is not the SHA-256 of the canonical form", m.UID())
	}
	got, err := DecodeManifest(want)
	if err != nil || got.UID() != m.UID() || len(got.Roots) != 2 || got.Roots[1] != m.Roots[1] {
		t.Errorf("%+v %v", got, err)
	}
	if h, ok := m.UID().Hash(); !ok || h != content.Sum(want) {
		t.Errorf("%s %t", h, ok)
	}
}

// The largest manifest there may be fits its limit.
func TestManifestSize(t *testing.T) {
	m := manifest()
	long := strings.Repeat("<", maxNameLen) // six bytes each in JSON
	m.Name, m.Revision, m.Class = long, long, Class{long, long, long, long, long}
	m.Blocks, m.Roots = MaxBlocks, roots(MaxBlocks)
	b := m.Encode()
	if got, err := DecodeManifest(b); err != nil || len(b) > MaxManifestBytes/2 || got.UID() != m.UID() {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

// Of a manifest there is one form, and what is not understood whole is not taken.
func TestDecodeManifestRefuses(t *testing.T) {
	good := string(manifest().Encode())
	if _, err := DecodeManifest([]byte(good)); err != nil {
		t.Fatal(err)
	}
	encoded := func(change func(*Manifest)) string {
		m := manifest()
		change(&m)
		return string(m.Encode())
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"", "manifest: "},
		"a list":          {"[]", "manifest: "},
		"another version": {strings.Replace(good, `"manifest":2`, `"manifest":3`, 1), "version 3, this node reads 2: update the older"},
		"no version":      {strings.Replace(good, `"manifest":2,`, ``, 1), "version 0"},
		"a space":         {strings.Replace(good, `,"name"`, `, "name"`, 1), "canonical"},
		"another order":   {strings.Replace(good, `"blocks":30,"hidden":576`, `"hidden":576,"blocks":30`, 1), "canonical"},
		"a new member":    {strings.Replace(good, `"share":true`, `"share":true,"x":1`, 1), "members that this version does not know"},
		"twice":           {strings.Replace(good, `"hidden":576`, `"hidden":5,"hidden":576`, 1), "canonical"},
		"capitals":        {strings.Replace(good, `"name"`, `"Name"`, 1), "canonical"},
		"behind it":       {good + "\n", "canonical"},
		"two":             {good + good, "manifest: "},
		"bad UTF-8":       {strings.Replace(good, "SmolLM2", "Smol\xff", 1), "canonical"},
		"no weights":      {encoded(func(m *Manifest) { m.Roots, m.Head = nil, content.Hash{} }), "names no weights"},
		"no head":         {encoded(func(m *Manifest) { m.Head = content.Hash{} }), "the head"},
		"a head alone":    {encoded(func(m *Manifest) { m.Roots = nil }), "the head"},
		"roots missing":   {encoded(func(m *Manifest) { m.Roots = m.Roots[1:] }), "roots of 29 blocks of 30"},
		"half a root":     {strings.Replace(good, `"roots":"`, `"roots":"ab`, 1), "roots of"},
		"no hex":          {strings.Replace(good, `"roots":"`+good[strings.Index(good, `"roots":"`)+9:][:2], `"roots":"zz`, 1), "root of block 0"},
		"blocks":          {encoded(func(m *Manifest) { m.Blocks = MaxBlocks + 1 }), "blocks"},
		"hidden":          {encoded(func(m *Manifest) { m.Hidden = 0 }), "hidden"},
		"name":            {encoded(func(m *Manifest) { m.Name = "a\nb" }), "control"},
		"class":           {encoded(func(m *Manifest) { m.Class.Quant = "" }), "class"},
		"too long":        {strings.Repeat(" ", MaxManifestBytes+1), "at most"},
	} {
		if _, err := DecodeManifest([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// What is read is written as it was: one model has one UID.
func FuzzDecodeManifest(f *testing.F) {
	m := manifest()
	f.Add(m.Encode())
	m.Blocks, m.Roots = 1, m.Roots[:1]
	f.Add(m.Encode())
	f.Add([]byte(`{"manifest":2,"name":"x","blocks":1,"roots":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.Encode(), b) || m.UID() != UID(content.Sum(b).String()) {
			t.Errorf("%q is taken and written as %q", b, m.Encode())
		}
	})
}

// A namespace is a word, as Petals' prefix of keys is, and travels in the manifest.
func TestNamespaces(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "mine": true, "mine/2_a-b": true, "日本": true, strings.Repeat("x", 64): true,
		"a.b": false, "a b": false, "a\tb": false, "a\u00a0b": false, "\x00": false, "\xff": false, strings.Repeat("x", 65): false,
	} {
		m := manifest()
		m.Namespace = text
		if err := m.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := DecodeManifest(m.Encode()); (err == nil) != ok || ok && got.Namespace != text {
			t.Errorf("%q came as %q: %v", text, got.Namespace, err)
		}
	}
}
