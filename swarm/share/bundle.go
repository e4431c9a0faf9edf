package share

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"whorl/content"
	"whorl/swarm/wire"
)

// Object is what is passed on: bytes that are named by their tree.
type Object struct {
	Root content.Hash `json:"root"`
	Size int64        `json:"size"`
}

// Pieces is how many pieces it has.
func (o Object) Pieces() int { return wire.Pieces(o.Size) }

// span is where a piece lies.
func (o Object) span(piece int) (from, to int64) {
	from = int64(piece) * wire.PieceSize
	return from, min(from+wire.PieceSize, o.Size)
}

// Fits tells whether trees of pieces are those of the object.
func (o Object) Fits(hashes []content.Hash) bool {
	return len(hashes) == o.Pieces() && content.TreeOf(hashes, wire.PieceLevel) == o.Root
}

// File of a bundle.
type File struct {
	Name string `json:"name"` // without folders
	Object
}

// Bundle is files that belong together, in the order of their names. Its text is an object too,
// so that one hash names all of their bytes.
type Bundle struct {
	Version int    `json:"bundle"`
	Files   []File `json:"files"`
}

// Limits of a bundle.
const (
	bundleVersion = 1
	MaxFiles      = 1024
	maxName       = 255
	// MaxBundle bounds the text, in bytes: a piece.
	MaxBundle = wire.PieceSize
)

// NewBundle puts files together.
func NewBundle(files []File) (Bundle, error) {
	b := Bundle{bundleVersion, files}
	return b, b.check()
}

// Encode gives the text: JSON, of which there is one for each bundle.
func (b Bundle) Encode() []byte {
	raw, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings, ints and hashes always marshal
	}
	return raw
}

// Root names the bundle.
func (b Bundle) Root() content.Hash { return content.Tree(b.Encode()) }

// DecodeBundle reads the text, and no other spelling of it.
func DecodeBundle(raw []byte) (Bundle, error) {
	var b Bundle
	if len(raw) > MaxBundle {
		return b, fmt.Errorf("bundle of %d bytes, at most %d", len(raw), MaxBundle)
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, fmt.Errorf("bundle: %w", err)
	}
	if err := b.check(); err != nil {
		return b, err
	}
	if !bytes.Equal(b.Encode(), raw) {
		return b, fmt.Errorf("bundle: not in its canonical form, or with members that this version does not know")
	}
	return b, nil
}

func (b Bundle) check() error {
	if b.Version != bundleVersion {
		return fmt.Errorf("bundle of version %d, this node reads %d", b.Version, bundleVersion)
	}
	if len(b.Files) == 0 || len(b.Files) > MaxFiles {
		return fmt.Errorf("bundle of %d files, want 1 to %d", len(b.Files), MaxFiles)
	}
	for i, f := range b.Files {
		switch {
		case !fileName(f.Name):
			return fmt.Errorf("bundle: %.100q is no name of a file", f.Name)
		case i > 0 && f.Name <= b.Files[i-1].Name:
			return fmt.Errorf("bundle: %.100q is out of order", f.Name)
		case f.Size < 0 || f.Size > wire.MaxPieces*wire.PieceSize:
			return fmt.Errorf("bundle: %.100q of %d bytes", f.Name, f.Size)
		case f.Root.IsZero():
			return fmt.Errorf("bundle: %.100q has no tree", f.Name)
		}
	}
	return nil
}

// fileName tells whether a name may become one on any disk.
func fileName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && s[0] != '.' && !strings.ContainsAny(s, `/\:*?"<>|`) &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
