package grammar

import "slices"

// Vocabulary is the tokens of a model as trees of their bytes, and what is known of them whatever
// an answer must be. It is immutable, safe for concurrent use, and shared by all grammars of a
// model. It takes about 120 bytes a token.
type Vocabulary struct {
	size    int
	ends    []int32
	bytes   []string // by id
	first   []string // by id, for the first token of a text; nil if they are the same
	tree    tree
	opening *tree // of first
}

// NewVocabulary makes one of size tokens. bytesOf are the bytes that an id adds to a text, nil for
// one that may never come, such as a control token; first is for the first token of a text, of
// which some vocabularies strip a space. ends are the ids that end an answer.
func NewVocabulary(size int, bytesOf func(id int32, first bool) []byte, ends []int32) *Vocabulary {
	v := &Vocabulary{size: size, ends: slices.Clone(ends), bytes: make([]string, size)}
	first := make([]string, size)
	same := true
	for id := range size {
		if slices.Contains(ends, int32(id)) {
			continue
		}
		v.bytes[id], first[id] = string(bytesOf(int32(id), false)), string(bytesOf(int32(id), true))
		same = same && v.bytes[id] == first[id]
	}
	if !same {
		v.first = first
		t := newTree(first)
		v.opening = &t
	}
	v.tree = newTree(v.bytes)
	return v
}

// Size is how many ids there are.
func (v *Vocabulary) Size() int { return v.size }

// words is how many words a mask has.
func (v *Vocabulary) words() int { return (v.size + 63) / 64 }
