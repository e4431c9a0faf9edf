package grammar

import (
	"math/bits"
	"slices"
)

// samples are the bytes that a state has to be asked for, to know what it does with all of a
// range: one of each class of its program.
type samples struct {
	ascii []byte // of each group
	wide  []wideSample
	takes []groups // by set: of its bytes
}

// wideSample are the samples of a form of characters of several bytes.
type wideSample struct {
	of    groups
	first []byte
	then  [][]byte
}

// sample finds the samples of a program.
func (p *program) sample() {
	of := func(r byteRange) (out []byte) {
		var seen byteSet
		for b := int(r.lo); b <= int(r.hi); b++ {
			if c := p.class[b]; !seen.has(c) {
				seen.add(c, c)
				out = append(out, byte(b))
			}
		}
		return out
	}
	for i := range p.sets {
		var g groups
		for b := range 256 {
			if p.sets[i].has(byte(b)) {
				g |= groupOf[b]
			}
		}
		p.samples.takes = append(p.samples.takes, g)
	}
	for _, f := range wideForms {
		w := wideSample{of: groupOf[f.first.lo], first: of(f.first), then: [][]byte{of(f.second)}}
		for range f.more {
			w.then = append(w.then, of(byteRange{0x80, 0xBF}))
		}
		p.samples.wide = append(p.samples.wide, w)
	}
	seen := map[groups]byteSet{}
	for b := range byte(0x80) {
		set := seen[groupOf[b]]
		if c := p.class[b]; !set.has(c) {
			set.add(c, c)
			seen[groupOf[b]] = set
			p.samples.ascii = append(p.samples.ascii, b)
		}
	}
}

// alike is what a state takes alike: each character of some groups leads to one state.
type alike struct {
	groups groups
	to     *state
	most   int  // so many characters of the groups are taken in a row; or endless, or unlooked
	only   bool // and none of them behind these
}

const (
	unlooked = -1
	endless  = 1 << 10
	manyMeet = 8 // times that a state is met in walks before it is looked at
)

// alikeOf finds what a state takes alike, and how many of it.
func (t *tables) alikeOf(s *state) (*alike, error) {
	a, err := t.oneAlike(s)
	if err != nil || a.most != unlooked {
		return a, err
	}
	a.most = 0
	at := s
	for a.groups != 0 && a.most < mostOrdinary {
		one, err := t.oneAlike(at)
		if err != nil {
			return nil, err
		}
		if a.groups&^one.groups != 0 || one.to.left {
			a.only, err = t.refuses(at, a.groups)
			return a, err
		}
		if one.to == at {
			a.most = endless
			break
		}
		at = one.to
		a.most++
	}
	return a, nil
}

// refuses tells whether no character of some groups may come.
func (t *tables) refuses(s *state, g groups) (bool, error) {
	begins := slices.Clone(t.p.samples.ascii)
	for _, w := range t.p.samples.wide {
		begins = append(begins, w.first...)
	}
	for _, b := range begins {
		if g&groupOf[b] == 0 {
			continue
		}
		if to, err := t.step(s, b); err != nil || to != dead {
			return false, err
		}
	}
	return true, nil
}

// oneAlike finds what a state takes alike. Of several sets of groups it is the one of most.
func (t *tables) oneAlike(s *state) (*alike, error) {
	if s.alike == nil {
		if err := t.endAlike(s); err != nil {
			return nil, err
		}
	}
	if s.alike != nil {
		return s.alike, nil
	}
	var all []alike
	put := func(to *state, g groups) {
		for i := range all {
			if all[i].to == to {
				all[i].groups |= g
				return
			}
		}
		all = append(all, alike{groups: g, to: to, most: unlooked})
	}
	for _, b := range t.p.samples.ascii {
		to, err := t.step(s, b)
		if err != nil {
			return nil, err
		}
		put(to, groupOf[b])
	}
	var mixed groups // whose characters do not lead to one state each
	for i := range t.p.samples.wide {
		w := &t.p.samples.wide[i]
		to, err := t.wideTo(s, w)
		if err != nil {
			return nil, err
		}
		if to == nil {
			mixed |= w.of
		} else {
			put(to, w.of)
		}
	}
	s.alike = &alike{most: unlooked}
	t.bytes += 40
	for i := range all { // a group that does not lead to one state alone is mixed too
		for _, other := range all[:i] {
			mixed |= all[i].groups & other.groups
		}
	}
	for _, one := range all {
		one.groups &^= mixed
		if one.to != dead && bits.OnesCount64(uint64(one.groups)) > bits.OnesCount64(uint64(s.alike.groups)) {
			*s.alike = one
		}
	}
	return s.alike, nil
}

// endAlike finds what a state takes alike where its characters are a rule of their own, as those of
// texts of a length: most end the rule of one frame, and no other frame takes them.
func (t *tables) endAlike(s *state) error {
	var g, others groups
	var at *stack
	for _, it := range s.items {
		if l := it.frame.local; l != nil && l.once != 0 && g == 0 {
			g, at = l.once, it.stack
			continue
		}
		for _, i := range it.frame.insts {
			others |= t.p.takes[t.p.insts[i].set]
		}
	}
	if g &^= others; g == 0 {
		return nil
	}
	to, err := t.back(at)
	if err == nil && to != dead {
		s.alike = &alike{groups: g, to: to, most: unlooked}
	}
	return err
}

// wideTo is where each character of a form leads, nil if they do not lead to one state, or if the
// rule may end within one.
func (t *tables) wideTo(s *state, w *wideSample) (*state, error) {
	to, err := t.follow(s, w.first)
	for i := 0; i < len(w.then) && to != nil && to != dead && err == nil; i++ {
		if to.left {
			return nil, nil
		}
		to, err = t.follow(to, w.then[i])
	}
	return to, err
}

// follow is where each of some bytes leads, nil if that is not one state.
func (t *tables) follow(s *state, by []byte) (out *state, err error) {
	for _, b := range by {
		to, err := t.step(s, b)
		if err != nil || out != nil && out != to {
			return nil, err
		}
		out = to
	}
	return out, nil
}
