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

// verify compares a whole file with its size and hash. came has the trees of chunks that were
// written just now and are known to be right.
func (f File) verify(data *os.File, came map[int]content.Hash) error {
	if f.Tree {
		return f.verifyTree(data, came)
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
// finds what the disk did to them since. came has the trees of those that came just now.
func (f File) verifyTree(data io.ReaderAt, came map[int]content.Hash) error {
	const level = 4 // of the tree of a chunk: 16 leaves
	var roots []content.Hash
	buf := make([]byte, chunkSize)
	for at := int64(0); at < f.Size; at += chunkSize {
		root, ok := came[int(at/chunkSize)]
		if !ok {
			b := buf[:min(f.Size-at, chunkSize)]
			if n, err := data.ReadAt(b, at); n < len(b) {
				return err
			}
			root = content.Tree(b)
		}
		roots = append(roots, root)
	}
	if got := content.TreeOf(roots, level).String(); got != f.Hash {
		return failed(ErrDamaged, nil, "%s has the tree %s instead of %s: the disk changed it; fetch it again", f.Path, got, f.Hash)
	}
	return nil
}
