package invite

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func full() *Invitation {
	return &Invitation{
		Swarm: "garden", Peers: [][]byte{bytes.Repeat([]byte{4, 127}, 23), []byte("other address")},
		UID: bytes.Repeat([]byte{0xab}, 32), Name: "owner/name", Model: "owner/name:Q4_0", Residual: "bf16", Key: bytes.Repeat([]byte{0xcd}, 32),
	}
}

func TestRoundTrip(t *testing.T) {
	for name, edit := range map[string]func(*Invitation){
		"all":       func(*Invitation) {},
		"open":      func(i *Invitation) { i.Key = nil },
		"no model":  func(i *Invitation) { i.UID = nil },
		"one peer":  func(i *Invitation) { i.Peers = i.Peers[:1] },
		"bare":      func(i *Invitation) { i.UID, i.Key, i.Model, i.Name, i.Residual = nil, nil, "", "", "" },
		"odd names": func(i *Invitation) { i.Swarm = "._-A" },
	} {
		i := full()
		edit(i)
		text, err := i.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !Looks(text) || strings.ToLower(text) != text || strings.ContainsAny(text, " /+=\n") {
			t.Errorf("%s: %s", name, text)
		}
		for _, form := range []string{text, strings.ToUpper(text), "  " + text + "\n"} {
			got, err := Decode(form)
			if err != nil || !reflect.DeepEqual(got, i) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// The word of a known invitation is for ever what it is.
func TestGolden(t *testing.T) {
	i := &Invitation{Swarm: "main", Peers: [][]byte{{1, 2, 3}}}
	const want = "whorl1aecg2yljnybagaican4vv6ow"
	got, err := i.Encode()
	if err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	later := Prefix + alphabet.EncodeToString(append([]byte("\x01\x04main\x02\x03\x01\x02\x03\x63\x02hi"), sum([]byte("\x01\x04main\x02\x03\x01\x02\x03\x63\x02hi"))...))
	if got, err := Decode(later); err != nil || got.Swarm != "main" {
		t.Errorf("a member of a later version: %+v, %v", got, err)
	}
}

// Every single mistake of typing is found, and so is a word cut short.
func TestMistakes(t *testing.T) {
	text, err := full().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for at := len(Prefix); at < len(text); at++ {
		for _, c := range "a7" {
			wrong := text[:at] + string(c) + text[at+1:]
			if wrong != text {
				if _, err := Decode(wrong); !errors.Is(err, ErrBad) {
					t.Fatalf("character %d changed to %c: %v", at, c, err)
				}
			}
		}
		if _, err := Decode(text[:at]); !errors.Is(err, ErrBad) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		if at+1 < len(text) && text[at] != text[at+1] {
			swapped := text[:at] + text[at+1:at+2] + text[at:at+1] + text[at+2:]
			if _, err := Decode(swapped); !errors.Is(err, ErrBad) {
				t.Fatalf("characters %d and %d swapped: %v", at, at+1, err)
			}
		}
	}
	for name, edit := range map[string]func(*Invitation){
		"no name":       func(i *Invitation) { i.Swarm = "" },
		"a long name":   func(i *Invitation) { i.Swarm = strings.Repeat("x", 65) },
		"no address":    func(i *Invitation) { i.Peers = nil },
		"many":          func(i *Invitation) { i.Peers = make([][]byte, 17) },
		"empty address": func(i *Invitation) { i.Peers[0] = nil },
		"half a hash":   func(i *Invitation) { i.UID = i.UID[:16] },
		"a long model":  func(i *Invitation) { i.Model = strings.Repeat("x", 513) },
		"half a key":    func(i *Invitation) { i.Key = i.Key[:16] },
	} {
		i := full()
		edit(i)
		if text, err := i.Encode(); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
	for _, text := range []string{"/home/whorl1abc", "./whorl1abc", "whorl1", "whorl1abc.gguf", "owner/name"} {
		if Looks(text) {
			t.Errorf("%s looks like an invitation", text)
		}
	}
}

// FuzzDecode: any text is an invitation or an error, and what is read can be written.
func FuzzDecode(f *testing.F) {
	text, _ := full().Encode()
	f.Add(text)
	f.Add("whorl1aecg2yljnybagaican4vv6ow")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := Decode(text)
		if err != nil {
			return
		}
		again, err := i.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(again); err != nil || !reflect.DeepEqual(back, i) {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}
