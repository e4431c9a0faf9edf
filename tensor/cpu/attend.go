package cpu

import (
	"runtime"

	"whorl/tensor"
)

// attendOp is the task of Attend, in up to three phases: rotate and write the new rows,
// attend, and, where the splits of a row were shared out, merge them.
type attendOp struct {
	d         *Device
	spec      tensor.AttendSpec
	dst, q    *buffer
	k, v      *buffer
	totals    *buffer // nil if they are not wanted
	kv        *kv
	batch     *tensor.Batch
	slopes    []float32 // of ALiBi, nil if there is none
	chunks    []chunk
	phase     phase
	splits    int       // most splits of a chunk
	headWidth int       // floats of a head's weighted sum: headDim padded to the values' blocks
	parts     []float32 // phaseSplits: partial results, [chunk][kv head][split][rows*group][2+headWidth]
}

type phase uint8

const (
	phaseWrite  phase = iota // tile: a row
	phaseWhole               // tile: a chunk and key/value head, all splits
	phaseSplits              // tile: a chunk, key/value head and split
	phaseMerge               // tile: a chunk and key/value head
)

// chunk is a run of rows of one sequence that walk the cache together: all of them begin
// in the same split and end in the same split.
type chunk struct {
	row, rows   int
	pos         int // of the first row
	first, last int // splits
}

// splits is the number of splits the chunk's rows walk.
func (c chunk) splits() int { return c.last - c.first + 1 }

// attendScratch is one thread's part: for up to maxTileRows query vectors.
type attendScratch struct {
	q      []float32 // [vectors][headDim]
	scores []float32 // [vectors][AttendSplit]
	bias   []float32 // [heads of a group][AttendSplit]: of ALiBi
	sum    []float32 // [vectors][headWidth]
	run    []float32 // [vectors][headWidth], merged so far
	m, l   []float32 // [vectors]
	runM   []float32
	runL   []float32
}

func (s *attendScratch) grow(vectors, headDim, width int) {
	if len(s.q) < vectors*headDim {
		s.q = make([]float32, vectors*headDim)
	}
	if len(s.sum) < vectors*width {
		s.sum, s.run = make([]float32, vectors*width), make([]float32, vectors*width)
	}
	if len(s.m) < vectors {
		s.scores, s.bias = make([]float32, vectors*tensor.AttendSplit), make([]float32, vectors*tensor.AttendSplit)
		s.m, s.l = make([]float32, vectors), make([]float32, vectors)
		s.runM, s.runL = make([]float32, vectors), make([]float32, vectors)
	}
}

// Attend rotates, writes to the cache and attends.
func (d *Device) Attend(dst, q, k, v tensor.Buffer, cache tensor.KV, b *tensor.Batch, s tensor.AttendSpec) {
	d.begin()
	defer d.end()
	op := &d.attend
	op.spec, op.batch, op.kv, op.slopes = s, b, cache.(*kv), nil
	op.dst, op.q, op.k, op.v, op.totals = dst.(*buffer), q.(*buffer), k.(*buffer), v.(*buffer), nil
	if s.Totals != nil {
		op.totals = s.Totals.(*buffer)
	}
	if s.Alibi != nil {
		op.slopes = floatsOf(s.Alibi.Slopes)
	}
	op.check()
	op.checkBatch()
	if len(b.Rows) == 0 {
		return
	}
	op.headWidth = op.kv.vBlocks * lanes
	op.cut()
	vectors := op.vectors()
	for i := range d.scratch {
		d.scratch[i].attention.grow(vectors, s.HeadDim, op.headWidth)
	}
	op.phase = phaseWrite
	d.rowwise(op, len(b.Rows))
	tiles := len(op.chunks) * s.KVHeads
	// Few rows over a long past: share out their splits too.
	if tiles < d.pool.Threads()*tilesPerThread && op.splits > 1 && d.pool.Threads() > 1 {
		if n := tiles * op.splits * op.partLen(); len(op.parts) < n {
			op.parts = make([]float32, n+n/2)
		}
		op.phase = phaseSplits
		d.pool.Run(op, tiles*op.splits)
		op.phase = phaseMerge
	} else {
		op.phase = phaseWhole
	}
	op.attend(tiles)
	runtime.KeepAlive(op.kv)
	op.dst, op.q, op.k, op.v, op.totals, op.kv, op.batch = nil, nil, nil, nil, nil, nil, nil
	op.spec, op.slopes = tensor.AttendSpec{}, nil
}

// serialWork is the number of multiplications below which attention stays on the calling
// thread: about as long as waking a worker takes.
const serialWork = 64 << 10

func (op *attendOp) attend(tiles int) {
	work := 0
	for _, c := range op.chunks {
		work += c.rows * (c.pos + c.rows - op.start(c.pos)) * op.spec.Heads * op.spec.HeadDim
	}
	if op.phase == phaseWhole && work < serialWork {
		for i := range tiles {
			op.Tile(0, i)
		}
		return
	}
	op.d.pool.Run(op, tiles)
}

// group is the number of query heads that share a key/value head.
func (op *attendOp) group() int { return op.spec.Heads / op.spec.KVHeads }

// vectors is the greatest number of query vectors of a chunk and key/value head.
func (op *attendOp) vectors() int { return op.chunkRows() * op.group() }

// chunkRows is how many rows walk together: as many as fill the kernels' registers.
func (op *attendOp) chunkRows() int { return op.d.RowGroup(op.spec.Heads, op.spec.KVHeads) }

// RowGroup implements [tensor.RowGrouper].
func (d *Device) RowGroup(heads, kvHeads int) int { return max(1, maxTileRows*kvHeads/heads) }

// partLen is the length of one partial result.
func (op *attendOp) partLen() int { return op.vectors() * (2 + op.headWidth) }

func (op *attendOp) check() {
	s, c, n := &op.spec, op.kv, len(op.batch.Rows)
	if !(s.KVHeads > 0 && s.Heads%s.KVHeads == 0 && s.KVHeads == c.spec.KVHeads && s.HeadDim == c.spec.HeadDim) {
		bug("attend with %d/%d heads of %d over a cache of %+v", s.Heads, s.KVHeads, s.HeadDim, c.spec)
	}
	if !(s.Layer >= 0 && s.Layer < c.spec.Layers) {
		bug("attend layer %d of %d", s.Layer, c.spec.Layers)
	}
	for _, b := range [...]*buffer{op.q, op.dst} {
		if !(b.cols == s.Heads*s.HeadDim && b.rows >= n) {
			bug("attend %d rows: queries or result %dx%d", n, b.rows, b.cols)
		}
	}
	for _, b := range [...]*buffer{op.k, op.v} {
		if !(b.cols == s.KVHeads*s.HeadDim && b.rows >= n) {
			bug("attend %d rows: keys or values %dx%d", n, b.rows, b.cols)
		}
	}
	if t := op.totals; t != nil && !(t.cols == 2*s.Heads && t.rows >= n) {
		bug("attend %d rows of %d heads: totals %dx%d", n, s.Heads, t.rows, t.cols)
	}
	if !(s.Window >= 0 && s.Softcap >= 0) {
		bug("attend in a window of %d, scores capped at %v", s.Window, s.Softcap)
	}
	if s.Alibi != nil && len(op.slopes) != s.Heads {
		bug("attend with %d slopes for %d heads", len(op.slopes), s.Heads)
	}
}

// checkBatch also makes the rotation tables reach the batch's positions.
func (op *attendOp) checkBatch() {
	for i, r := range op.batch.Rows {
		if !(r.Seq >= 0 && int(r.Seq) < len(op.batch.Seqs) && r.Pos >= 0) {
			bug("row %d: sequence %d of %d, position %d", i, r.Seq, len(op.batch.Seqs), r.Pos)
		}
		pages := op.batch.Seqs[r.Seq].Pages
		if !(int(r.Pos) < len(pages)*tensor.PageTokens) {
			bug("row %d: position %d of a sequence with %d pages", i, r.Pos, len(pages))
		}
		if t := op.rope(r.Seq); t != nil {
			if t.spec.HeadDim != op.spec.HeadDim {
				bug("row %d: rope over heads of %d for heads of %d", i, t.spec.HeadDim, op.spec.HeadDim)
			}
			t.reach(int(r.Pos))
		}
	}
	for i := range op.batch.Seqs {
		for _, p := range op.batch.Seqs[i].Pages {
			if !(p >= 0 && int(p) < op.kv.spec.Pages) {
				bug("page %d of %d", p, op.kv.spec.Pages)
			}
		}
	}
}

// rope is the rotation of a sequence, nil if there is none.
func (op *attendOp) rope(seq int32) *rope {
	if op.spec.Rope == nil {
		return nil
	}
	if own := op.batch.Seqs[seq].Rope; own != nil {
		return own.(*rope)
	}
	return op.spec.Rope.(*rope)
}

// start is the first position that a row at pos sees.
func (op *attendOp) start(pos int) int {
	if op.spec.Window == 0 {
		return 0
	}
	return max(0, pos-op.spec.Window+1)
}

// cut makes chunks of the batch's rows.
func (op *attendOp) cut() {
	op.chunks, op.splits = op.chunks[:0], 0
	most := op.chunkRows()
	rows := op.batch.Rows
	for i := 0; i < len(rows); {
		pos := int(rows[i].Pos)
		c := chunk{row: i, rows: 1, pos: pos, first: op.start(pos) / tensor.AttendSplit, last: pos / tensor.AttendSplit}
		for c.rows < most && i+c.rows < len(rows) && rows[i+c.rows].Seq == rows[i].Seq {
			next := int(rows[i+c.rows].Pos)
			if next != pos+c.rows || next/tensor.AttendSplit != c.last || op.start(next)/tensor.AttendSplit != c.first {
				break
			}
			c.rows++
		}
		op.chunks = append(op.chunks, c)
		op.splits = max(op.splits, c.splits())
		i += c.rows
	}
}

func (op *attendOp) Tile(worker, i int) {
	if op.phase == phaseWrite {
		op.write(i)
		return
	}
	s := &op.d.scratch[worker].attention
	split := 0
	if op.phase == phaseSplits {
		i, split = i/op.splits, i%op.splits
	}
	c, head := op.chunks[i/op.spec.KVHeads], i%op.spec.KVHeads
	switch op.phase {
	case phaseWhole:
		op.gather(s, c, head)
		for n := range c.splits() {
			op.split(s, c, head, c.first+n)
			op.merge(s, c, n, s.m, s.l, s.sum)
		}
		op.finish(s, c, head)
	case phaseSplits:
		if split < c.splits() {
			op.gather(s, c, head)
			op.split(s, c, head, c.first+split)
			m, l, sum := op.part(i, split)
			copy(m, s.m)
			copy(l, s.l)
			copy(sum, s.sum)
		}
	case phaseMerge:
		for n := range c.splits() {
			m, l, sum := op.part(i, n)
			op.merge(s, c, n, m, l, sum)
		}
		op.finish(s, c, head)
	}
}

// part is where the partial result of a split lies.
func (op *attendOp) part(tile, split int) (m, l, sum []float32) {
	n := op.vectors()
	p := op.parts[(tile*op.splits+split)*op.partLen():][:op.partLen()]
	return p[:n], p[n : 2*n], p[2*n:]
}

// write rotates row i and stores its key and value.
func (op *attendOp) write(i int) {
	r, hd := op.batch.Rows[i], op.spec.HeadDim
	pos := int(r.Pos)
	k, v := op.k.row(i), op.v.row(i)
	if t := op.rope(r.Seq); t != nil {
		t.apply(op.q.row(i), pos)
		t.apply(k, pos)
	}
	page := op.batch.Seqs[r.Seq].Pages[pos/tensor.PageTokens]
	for h := range op.spec.KVHeads {
		op.kv.write(page, op.spec.Layer, h, pos%tensor.PageTokens, k[h*hd:(h+1)*hd], v[h*hd:(h+1)*hd])
	}
}

// gather copies the query vectors of a chunk and key/value head: [row][head of group].
func (op *attendOp) gather(s *attendScratch, c chunk, head int) {
	n := op.group() * op.spec.HeadDim
	for r := range c.rows {
		copy(s.q[r*n:(r+1)*n], op.q.row(c.row + r)[head*n:])
	}
}

// split attends one split: s.m, s.l and s.sum of each query vector.
func (op *attendOp) split(s *attendScratch, c chunk, head, split int) {
	k, hd, width, group := op.d.k, op.spec.HeadDim, op.headWidth, op.group()
	n := c.rows * group
	at := split * tensor.AttendSplit
	pages := op.batch.Seqs[op.batch.Rows[c.row].Seq].Pages[at/tensor.PageTokens:]
	from, least := op.seen(c.pos, split)         // what the first row sees
	late, most := op.seen(c.pos+c.rows-1, split) // and the last one

	scores, sum := s.scores[:n*tensor.AttendSplit], s.sum[:n*width]
	clear(scores)
	for p := from / tensor.PageTokens; p*tensor.PageTokens < most; p++ {
		keys, next := op.kv.head(pages[p], op.spec.Layer, head)
		page := p * tensor.PageTokens
		if page+tensor.PageTokens < most {
			next, _ = op.kv.head(pages[p+1], op.spec.Layer, head)
		} else {
			_, next = op.kv.head(pages[from/tensor.PageTokens], op.spec.Layer, head)
		}
		// Whole pairs of blocks; what lies around the seen positions is not looked at.
		first := max(from-page, 0) / (2 * lanes) * 2
		end := (min(most-page, tensor.PageTokens) + 2*lanes - 1) / (2 * lanes) * 2
		op.kv.product(k, scores[page+first*lanes:], tensor.AttendSplit, keys+first*lanes*hd, hd*lanes, end-first, s.q, hd, n, hd, next)
	}
	if op.slopes != nil {
		op.bias(s, head, at+from, at+most)
	}
	for i := range n {
		from, to := op.seen(c.pos+i/group, split)
		s.m[i], s.l[i] = op.soften(s, scores[i*tensor.AttendSplit:], i%group, from, to)
	}
	clear(sum)
	// What all rows see is weighed together; the sums run over rising positions.
	least = max(least, late)
	for i := range n {
		from, to := op.seen(c.pos+i/group, split)
		op.weigh(sum[i*width:], scores[i*tensor.AttendSplit:], pages, head, 1, from, min(to, late))
	}
	op.weigh(sum, scores, pages, head, n, late, least)
	for i := range n {
		_, to := op.seen(c.pos+i/group, split)
		op.weigh(sum[i*width:], scores[i*tensor.AttendSplit:], pages, head, 1, least, to)
	}
}

// seen is what a row at pos sees of a split: [from, to), counted from the split's start.
func (op *attendOp) seen(pos, split int) (from, to int) {
	at := split * tensor.AttendSplit
	return max(op.start(pos)-at, 0), min(pos+1-at, tensor.AttendSplit)
}

// weigh adds the values of positions [from, to) of a split, weighted, to n sums.
func (op *attendOp) weigh(sum, weights []float32, pages []int32, head, n, from, to int) {
	for from < to {
		p, at := from/tensor.PageTokens, from%tensor.PageTokens
		count := min(to-from, tensor.PageTokens-at)
		_, values := op.kv.head(pages[p], op.spec.Layer, head)
		next := values
		if from+count < to {
			_, next = op.kv.head(pages[p+1], op.spec.Layer, head)
		} else if (p+1)*tensor.PageTokens == tensor.AttendSplit && p+1 < len(pages) {
			next, _ = op.kv.head(pages[p+1], op.spec.Layer, head) // the keys of the next split
		}
		op.kv.product(op.d.k, sum, op.headWidth, values+at*lanes, tensor.PageTokens*lanes, op.kv.vBlocks,
			weights[from:], tensor.AttendSplit, n, count, next)
		from += count
	}
}

// merge joins split number n to what was merged so far.
func (op *attendOp) merge(s *attendScratch, c chunk, n int, m, l, sum []float32) {
	width := op.headWidth
	for i := range c.rows * op.group() {
		run, part := s.run[i*width:(i+1)*width], sum[i*width:(i+1)*width]
		if n == 0 {
			s.runM[i], s.runL[i] = m[i], l[i]
			copy(run, part)
			continue
		}
		top := max(s.runM[i], m[i])
		a, b := exp32OrOne(s.runM[i]-top), exp32OrOne(m[i]-top)
		s.runL[i] = fma32(s.runL[i], a, float32(l[i]*b))
		op.d.k.blend(run, part, a, b)
		s.runM[i] = top
	}
}

// exp32OrOne is exp32, quicker at 0: of two maxima one is the greater.
func exp32OrOne(x float32) float32 {
	if x == 0 {
		return 1
	}
	return exp32(x)
}

// finish divides by the sums of weights and writes the result.
func (op *attendOp) finish(s *attendScratch, c chunk, head int) {
	hd, group := op.spec.HeadDim, op.group()
	for i := range c.rows * group {
		out := op.dst.row(c.row + i/group)[(head*group+i%group)*hd:][:hd]
		op.d.k.scale(out, s.run[i*op.headWidth:], 1/s.runL[i])
		if op.totals != nil {
			h, to := head*group+i%group, op.totals.row(c.row+i/group)
			to[h], to[op.spec.Heads+h] = s.runM[i], s.runL[i]
		}
	}
}
