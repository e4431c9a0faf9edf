package grammar

import (
	"cmp"
	"slices"
	"strings"
)

// Vocabulary is the tokens of a model as a tree of their bytes. It is immutable and safe for
// concurrent use.
type Vocabulary struct {
	size  int
	ends  []int32
	bytes []string // by id
	first []string // by id, for the first token of a text; nil if they are the same
	tree  tree
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
	}
	v.tree = newTree(v.bytes)
	return v
}

// Size is how many ids there are.
func (v *Vocabulary) Size() int { return v.size }

// words is how many words a mask has.
func (v *Vocabulary) words() int { return (v.size + 63) / 64 }

// treeNode is a beginning of tokens. Nodes come in the order of a walk: what begins with a node
// stands right behind it, up to skip.
type treeNode struct {
	b     byte
	depth int32 // bytes up to here
	skip  int32
	from  int32 // of the tokens that end here: their place in tokens,
	count int32 // and number
}

type tree struct {
	nodes  []treeNode
	tokens []int32
	deep   int // bytes of the longest token
}

func newTree(bytes []string) tree {
	var ids []int32
	t := tree{}
	for id, s := range bytes {
		if s != "" {
			ids = append(ids, int32(id))
			t.deep = max(t.deep, len(s))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(strings.Compare(bytes[a], bytes[b]), int(a-b))
	})
	var path []int32 // nodes down to the last token
	last := ""
	for _, id := range ids {
		s := bytes[id]
		same := 0
		for same < len(s) && same < len(last) && s[same] == last[same] {
			same++
		}
		for ; len(path) > same; path = path[:len(path)-1] {
			t.nodes[path[len(path)-1]].skip = int32(len(t.nodes))
		}
		for i := same; i < len(s); i++ {
			path = append(path, int32(len(t.nodes)))
			t.nodes = append(t.nodes, treeNode{b: s[i], depth: int32(i + 1)})
		}
		n := &t.nodes[path[len(path)-1]]
		if n.count == 0 {
			n.from = int32(len(t.tokens))
		}
		n.count++
		t.tokens = append(t.tokens, id)
		last = s
	}
	for _, at := range path {
		t.nodes[at].skip = int32(len(t.nodes))
	}
	return t
}

// walk marks the tokens below nodes [from, to) that a state at some depth admits. at has room for
// a state at each depth. leave, if not nil, is told of each node at which the rule may have ended.
func (t *tables) walk(v *tree, from, to int32, s *state, depth int32, at []*state, mask []uint64, leave func(node int32)) error {
	at[depth] = s
	for i := from; i < to; {
		n := &v.nodes[i]
		before := at[n.depth-1]
		var s *state
		if before.next != nil {
			s = before.next[t.p.class[n.b]]
		}
		if s == nil {
			var err error
			if s, err = t.step(before, n.b); err != nil {
				return err
			}
		}
		if s == dead {
			i = n.skip
			continue
		}
		at[n.depth] = s
		for _, id := range v.tokens[n.from : n.from+n.count] {
			mask[id>>6] |= 1 << (id & 63)
		}
		if s.left && leave != nil {
			leave(i)
		}
		i++
	}
	return nil
}
