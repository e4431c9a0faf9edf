package proof

import "whorl/content"

const (
	pageLevel = 6
	pageRows  = 1 << pageLevel // leaves that are kept together, with the root over them
)

// Log keeps the leaves of all rows that a stage has computed in a session, so that it can
// name any number of them from the first on. The zero value has none.
type Log struct {
	pages []*logPage
	rows  int
}

// logPage is a complete subtree once it is full.
type logPage struct {
	leaves [pageRows]content.Hash // as leaves of the tree
	root   content.Hash           // once all are there
}

// LogBytes is the memory of a log of so many rows, in bytes.
func LogBytes(rows int64) int64 {
	const page = (pageRows + 1) * int64(len(content.Hash{}))
	return (rows + pageRows - 1) / pageRows * page
}

// Rows is how many rows there are.
func (l *Log) Rows() int { return l.rows }

// Cut forgets the rows from the given one on.
func (l *Log) Cut(rows int) {
	if rows >= l.rows {
		return
	}
	l.rows = rows
	keep := (rows + pageRows - 1) / pageRows
	clear(l.pages[keep:])
	l.pages = l.pages[:keep]
}

// Append adds the next row.
func (l *Log) Append(leaf content.Hash) {
	at := l.rows % pageRows
	if at == 0 {
		l.pages = append(l.pages, new(logPage))
	}
	p := l.pages[len(l.pages)-1]
	p.leaves[at] = content.LeafOf(leaf[:])
	l.rows++
	if at+1 == pageRows {
		var r content.Roots
		for _, h := range p.leaves {
			r.Add(h)
		}
		p.root = r.Root()
	}
}

// Root is the root of the tree of RFC 6962 whose leaves are the hashes of the rows' leaves.
func (l *Log) Root() content.Hash {
	var r content.Roots
	whole := l.rows / pageRows
	for _, p := range l.pages[:whole] {
		r.AddTree(p.root, pageLevel)
	}
	if rest := l.rows % pageRows; rest > 0 {
		for _, h := range l.pages[whole].leaves[:rest] {
			r.Add(h)
		}
	}
	return r.Root()
}
