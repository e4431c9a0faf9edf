package client

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
)

// logitsHash sums up the bits of logits. A nil one does nothing.
type logitsHash struct {
	h   hash.Hash
	buf []byte
}

func newLogitsHash() *logitsHash { return &logitsHash{h: sha256.New()} }

func (l *logitsHash) add(logits []float32) {
	if l == nil {
		return
	}
	l.buf = l.buf[:0]
	for _, v := range logits {
		l.buf = binary.LittleEndian.AppendUint32(l.buf, math.Float32bits(v))
	}
	l.h.Write(l.buf)
}

// String is the first 16 bytes in hex, "" for a nil one.
func (l *logitsHash) String() string {
	if l == nil {
		return ""
	}
	return hex.EncodeToString(l.h.Sum(nil)[:16])
}
