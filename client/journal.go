package client

// pageRows is the number of rows a journal page holds.
const pageRows = 64

// journal is the memory of the rows that crossed one border between stages: what a new stage
// behind it would have to be fed. The machine knows which of them are there. Guarded by the
// session's lock.
type journal struct {
	hidden int
	pages  [][]float32 // page i holds positions [i*pageRows, (i+1)*pageRows)
}

// pageBytes is the memory of one page.
func (e *Engine) pageBytes() int64 { return pageRows * int64(e.cfg.Manifest.Hidden) * 4 }

// put stores rows [][hidden] from position start on.
func (j *journal) put(start int, rows []float32) {
	n := len(rows) / j.hidden
	for i := 0; i < n; {
		page, at := (start+i)/pageRows, (start+i)%pageRows
		for len(j.pages) <= page {
			j.pages = append(j.pages, nil)
		}
		if j.pages[page] == nil {
			j.pages[page] = make([]float32, pageRows*j.hidden)
		}
		m := min(n-i, pageRows-at)
		copy(j.pages[page][at*j.hidden:], rows[i*j.hidden:(i+m)*j.hidden])
		i += m
	}
}

// rows appends rows [from, to), which must be there, to dst.
func (j *journal) rows(dst []float32, from, to int) []float32 {
	for p := from; p < to; {
		page, at := p/pageRows, p%pageRows
		m := min(to-p, pageRows-at)
		dst = append(dst, j.pages[page][at*j.hidden:(at+m)*j.hidden]...)
		p += m
	}
	return dst
}

// cut forgets every position from p on. A nil journal has none.
func (j *journal) cut(p int) {
	if j == nil {
		return
	}
	if keep := (p + pageRows - 1) / pageRows; keep < len(j.pages) {
		clear(j.pages[keep:])
		j.pages = j.pages[:keep]
	}
}
