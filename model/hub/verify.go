package hub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"whorl/content"
)

// verify compares a whole file with its size and hash.
func (f File) verify(data *os.File) error {
	if f.Tree {
		return f.verifyTree(data)
	}
	var sum hash.Hash
	if f.sha256() {
		sum = sha256.New()
	} else {
		sum = sha1.New() // git's hash of a file
		fmt.Fprintf(sum, "blob %d\x00", f.Size)
	}
	n, err := io.Copy(sum, io.NewSectionReader(data, 0, f.Size))
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != f.Size || got != f.Hash {
		return failed(ErrDamaged, nil, "%s has the hash %s instead of %s: it was fetched damaged, or changed at the hub; fetch it again", f.Path, got, f.Hash)
	}
	return nil
}

// verifyTree compares a whole file with its tree. Its chunks were right when they came: this
// finds what the disk did to them.
func (f File) verifyTree(data io.ReaderAt) error {
	var tree content.Roots
	buf := make([]byte, content.ChunkSize)
	for at := int64(0); at < f.Size; at += content.ChunkSize {
		b := buf[:min(f.Size-at, content.ChunkSize)]
		if n, err := data.ReadAt(b, at); n < len(b) {
			return err
		}
		tree.Add(content.LeafOf(b))
	}
	if got := tree.Root().String(); got != f.Hash {
		return failed(ErrDamaged, nil, "%s has the tree %s instead of %s: the disk changed it; fetch it again", f.Path, got, f.Hash)
	}
	return nil
}
