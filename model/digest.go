package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// BlockDigest names the stored weights of block i: SHA-256, in hex, over each tensor's
// canonical name, type, shape and bytes, in canonical order. Holders of the same file, or
// of files with the same tensors under other prefixes or in other shards, agree on it. It
// reads the whole block.
func (c *Checkpoint) BlockDigest(i int) (string, error) {
	if err := c.inRange(i); err != nil {
		return "", err
	}
	sum := sha256.New()
	spec := c.Config.Block(i)
	seen := map[string]bool{} // several needs may lie in one tensor
	for _, need := range spec.Needs() {
		name := c.source(i, need).name
		if seen[name] {
			continue
		}
		seen[name] = true
		t, err := c.file.Tensor(name)
		if err != nil {
			return "", fmt.Errorf("digest of block %d of %s: %w", i, c.Name, err)
		}
		WriteFramed(sum, []byte(c.canon.source(spec, need).name))
		s, _ := storageOf(t.Info)
		WriteFramed(sum, []byte(s.name))
		WriteFramed(sum, fmt.Append(nil, t.Shape))
		WriteFramed(sum, t.Data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// WriteFramed adds bytes to a hash, behind their length, so that no two lists of parts look
// alike.
func WriteFramed(w io.Writer, b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	w.Write(n[:]) // a hash never fails
	w.Write(b)
}
