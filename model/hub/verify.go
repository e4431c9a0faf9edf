package hub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// verify compares a whole file with its size and hash.
func (f File) verify(data *os.File) error {
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
