package grammar

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// tree is the tokens of a vocabulary by their bytes: first the ordinary ones, then the others.
// What most states take or refuse as a whole is known of the ordinary ones beforehand.
type tree struct {
	nodes  []treeNode // the last one is none: it stands behind all
	others int32      // the first node of the others
	tokens []int32
	deep   int // bytes of the longest token
	upTo   [mostOrdinary + 1][]uint64
}

// treeNode is a beginning of tokens. Nodes come in the order of a walk: what begins with a node
// stands right behind it, up to skip. Its tokens are those from its place in tokens to that of
// skip, of which those up to the place of the next node end with it.
type treeNode struct {
	holds groups // of the characters of all its tokens, behind this beginning
	depth int32  // bytes up to here
	skip  int32
	from  int32
	b     byte
	below uint8 // characters of its longest token behind this beginning, at most 255
}

// mostOrdinary is how many characters an ordinary token has at most; upTo are the ordinary tokens
// of at most so many.
const mostOrdinary = 16

// ordinary tells whether a token is made of what a JSON text shows as it is, and how many
// characters it has.
func ordinary(s string) (size int, ok bool) {
	size = utf8.RuneCountInString(s)
	if size > mostOrdinary || !utf8.ValidString(s) {
		return size, false
	}
	for i := range len(s) {
		if groupOf[s[i]]&^plain != 0 {
			return size, false
		}
	}
	return size, true
}

func newTree(bytes []string) tree {
	t := tree{}
	var parts [2][]int32
	for i := range t.upTo {
		t.upTo[i] = make([]uint64, (len(bytes)+63)/64)
	}
	for id, s := range bytes {
		if s == "" {
			continue
		}
		t.deep = max(t.deep, len(s))
		size, ok := ordinary(s)
		if !ok {
			parts[1] = append(parts[1], int32(id))
			continue
		}
		parts[0] = append(parts[0], int32(id))
		for ; size <= mostOrdinary; size++ {
			t.upTo[size][id>>6] |= 1 << (id & 63)
		}
	}
	t.grow(bytes, parts[0])
	t.others = int32(len(t.nodes))
	t.grow(bytes, parts[1])
	t.nodes = append(t.nodes, treeNode{from: int32(len(t.tokens))})
	return t
}

// grow adds tokens behind those that are there.
func (t *tree) grow(bytes []string, ids []int32) {
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(strings.Compare(bytes[a], bytes[b]), int(a-b))
	})
	var path []int32 // nodes down to the last token
	last := ""
	leave := func(depth int) {
		for ; len(path) > depth; path = path[:len(path)-1] {
			t.close(path, last[:len(path)])
		}
	}
	for _, id := range ids {
		s := bytes[id]
		same := 0
		for same < len(s) && same < len(last) && s[same] == last[same] {
			same++
		}
		leave(same)
		for i := same; i < len(s); i++ {
			path = append(path, int32(len(t.nodes)))
			t.nodes = append(t.nodes, treeNode{b: s[i], depth: int32(i + 1), from: int32(len(t.tokens))})
		}
		t.tokens = append(t.tokens, id)
		if !utf8.ValidString(s) {
			t.nodes[path[len(path)-1]].holds |= torn
		}
		last = s
	}
	leave(0)
}

// close ends the last node of a path, whose bytes are begin: all that begins so is there.
func (t *tree) close(path []int32, begin string) {
	n := &t.nodes[path[len(path)-1]]
	n.skip = int32(len(t.nodes))
	if len(path) > 1 {
		up := &t.nodes[path[len(path)-2]]
		up.holds |= n.holds | groupOf[n.b]
		below := int(n.below)
		if utf8.RuneStart(n.b) {
			below++
		}
		up.below = uint8(min(255, max(int(up.below), below)))
	}
	if !utf8.ValidString(begin) { // what follows is no whole character
		n.holds |= torn
	}
}

// end is behind the last node.
func (t *tree) end() int32 { return int32(len(t.nodes) - 1) }

// look marks all tokens that a state admits, as walk does.
func (t *tables) look(v *tree, s *state, at []*state, mask []uint64, leave func(node int32)) error {
	a, err := t.alikeOf(s)
	if err != nil {
		return err
	}
	from := int32(0)
	if plain&^a.groups == 0 && (a.most >= mostOrdinary || a.only) {
		for i, w := range v.upTo[min(a.most, mostOrdinary)] {
			mask[i] |= w
		}
		from = v.others
	}
	return t.walk(v, from, v.end(), s, 0, at, mask, leave)
}

// walk marks the tokens below nodes [from, to) that a state at some depth admits. at has room for
// a state at each depth. leave, if not nil, is told of each node at which the rule may have ended
// and more may come.
//
// Tokens of which all that is left is taken alike are marked without being looked at.
func (t *tables) walk(v *tree, from, to int32, s *state, depth int32, at []*state, mask []uint64, leave func(node int32)) (err error) {
	at[depth] = s
	for i := from; i < to; {
		n := &v.nodes[i]
		before := at[n.depth-1]
		var s *state
		if before.next != nil {
			s = before.next[t.p.class[n.b]]
		}
		if s == nil {
			if s, err = t.step(before, n.b); err != nil {
				return err
			}
		}
		if s == dead {
			i = n.skip
			continue
		}
		at[n.depth] = s
		if s.left && leave != nil && n.skip > i+1 {
			leave(i)
		}
		i++
		ends := v.nodes[i].from
		if n.skip > i {
			a := s.alike
			if s.met++; s.met >= manyMeet && (a == nil || a.most == unlooked) {
				if a, err = t.alikeOf(s); err != nil {
					return err
				}
			}
			if a != nil && n.holds&^a.groups == 0 && int(n.below) <= a.most {
				i, ends = n.skip, v.nodes[n.skip].from
			}
		}
		for _, id := range v.tokens[n.from:ends] {
			mask[id>>6] |= 1 << (id & 63)
		}
	}
	return nil
}
