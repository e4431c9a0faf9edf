package proof

import (
	"encoding/binary"

	"whorl/content"
)

// Mode is all of a session that alters what its stages compute, beside the manifest and the
// rows. What does not alter results (waiting times, chunks, routes) is no part of it.
type Mode struct {
	Activations string // how rows meet quantised weights: "8bit" ("" or "auto") or "f32"
	Residual    string // how rows are rounded between blocks; "" for "f32": not at all
	MaxLength   int    // positions reserved: it fixes rotations that depend on the length
	// Adapter is the digest of the LoRA adapter; its name alters nothing. "" for none.
	Adapter string
	// Prompts names the tables of trained prompts that stages add; zero for none.
	Prompts content.Hash
	// Processors names what stages do to rows beside their blocks; zero for nothing.
	Processors content.Hash
}

// What is meant where a mode says nothing: rows are rounded to 8 bits where they meet
// quantised weights, and are float32 from block to block.
const (
	DefaultActivations = "8bit"
	DefaultResidual    = "f32"
)

// The members of a mode as they are hashed. A later version may add some: sessions without
// them keep their hash.
const (
	tagActivations = iota + 1
	tagResidual
	tagMaxLength
	tagAdapter
	tagPrompts
	tagProcessors
)

var modeDomain = content.NewDomain("whorl session mode")

// Hash names the mode: SHA-256 over its domain and over the members that are there, by
// rising tag, each as a byte of tag, two little-endian bytes of length, and the value.
func (m Mode) Hash() content.Hash {
	b := make([]byte, 0, 256)
	add := func(tag byte, v []byte) {
		if len(v) == 0 {
			return
		}
		b = binary.LittleEndian.AppendUint16(append(b, tag), uint16(len(v)))
		b = append(b, v...)
	}
	hash := func(tag byte, h content.Hash) {
		if !h.IsZero() {
			add(tag, h[:])
		}
	}
	residual, activations := m.Residual, m.Activations
	if residual == "" {
		residual = DefaultResidual
	}
	if activations == "" || activations == "auto" {
		activations = DefaultActivations
	}
	add(tagActivations, []byte(activations))
	add(tagResidual, []byte(residual))
	add(tagMaxLength, binary.LittleEndian.AppendUint64(nil, uint64(m.MaxLength)))
	add(tagAdapter, []byte(m.Adapter))
	hash(tagPrompts, m.Prompts)
	hash(tagProcessors, m.Processors)
	return modeDomain.Of(b)
}
