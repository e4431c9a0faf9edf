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
	kv        *kv
	rope      *rope
	batch     *tensor.Batch
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

// chunk is a run of rows of one sequence that walk the cache together. All its rows end in
// the same split.
type chunk struct {
	row, rows int
	pos       int // of the first row
}

// splitsOf is the number of splits the chunk's rows walk.
func (c chunk) splits() int { return c.pos/tensor.AttendSplit + 1 }

// attendScratch is one thread's part: for up to maxTileRows query vectors.
type attendScratch struct {
	q      []float32 // [vectors][headDim]
	scores []float32 // [vectors][AttendSplit]
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
		s.scores = make([]float32, vectors*tensor.AttendSplit)
		s.m, s.l = make([]float32, vectors), make([]float32, vectors)
		s.runM, s.runL = make([]float32, vectors), make([]float32, vectors)
	}
}

// Attend rotates, writes to the cache and attends.
func (d *Device) Attend(dst, q, k, v tensor.Buffer, cache tensor.KV, b *tensor.Batch, s tensor.AttendSpec) {
	d.begin()
	defer d.end()
	op := &d.attend
	op.spec, op.batch, op.kv, op.rope = s, b, cache.(*kv), nil
	op.dst, op.q, op.k, op.v = dst.(*buffer), q.(*buffer), k.(*buffer), v.(*buffer)
	if s.Rope != nil {
		op.rope = s.Rope.(*rope)
	}
	op.check()
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
	if tiles < d.pool.threads*tilesPerThread && op.splits > 1 && d.pool.threads > 1 {
		if n := tiles * op.splits * op.partLen(); len(op.parts) < n {
			op.parts = make([]float32, n+n/2)
		}
		op.phase = phaseSplits
		d.pool.run(op, tiles*op.splits)
		op.phase = phaseMerge
	} else {
		op.phase = phaseWhole
	}
	op.attend(tiles)
	op.dst, op.q, op.k, op.v, op.batch, op.rope = nil, nil, nil, nil, nil, nil
	runtime.KeepAlive(op.kv)
	op.kv = nil
}

// serialWork is the number of multiplications below which attention stays on the calling
// thread: about as long as waking a worker takes.
const serialWork = 64 << 10

func (op *attendOp) attend(tiles int) {
	work := 0
	for _, c := range op.chunks {
		work += c.rows * (c.pos + c.rows) * op.spec.Heads * op.spec.HeadDim
	}
	if op.phase == phaseWhole && work < serialWork {
		for i := range tiles {
			op.tile(0, i)
		}
		return
	}
	op.d.pool.run(op, tiles)
}

// group is the number of query heads that share a key/value head.
func (op *attendOp) group() int { return op.spec.Heads / op.spec.KVHeads }

// vectors is the greatest number of query vectors of a chunk and key/value head.
func (op *attendOp) vectors() int { return op.chunkRows() * op.group() }

// chunkRows is how many rows walk together: as many as fill the kernels' registers.
func (op *attendOp) chunkRows() int { return max(1, maxTileRows/op.group()) }

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
	if op.rope != nil && op.rope.spec.HeadDim != s.HeadDim {
		bug("rope over heads of %d for heads of %d", op.rope.spec.HeadDim, s.HeadDim)
	}
	last := 0
	for i, r := range op.batch.Rows {
		if !(r.Seq >= 0 && int(r.Seq) < len(op.batch.Seqs) && r.Pos >= 0) {
			bug("row %d: sequence %d of %d, position %d", i, r.Seq, len(op.batch.Seqs), r.Pos)
		}
		pages := op.batch.Seqs[r.Seq].Pages
		if !(int(r.Pos) < len(pages)*tensor.PageTokens) {
			bug("row %d: position %d of a sequence with %d pages", i, r.Pos, len(pages))
		}
		last = max(last, int(r.Pos))
	}
	for i := range op.batch.Seqs {
		for _, p := range op.batch.Seqs[i].Pages {
			if !(p >= 0 && int(p) < c.spec.Pages) {
				bug("page %d of %d", p, c.spec.Pages)
			}
		}
	}
	if op.rope != nil && n > 0 {
		op.rope.reach(last)
	}
}

// cut makes chunks of the batch's rows.
func (op *attendOp) cut() {
	op.chunks, op.splits = op.chunks[:0], 0
	most := op.chunkRows()
	rows := op.batch.Rows
	for i := 0; i < len(rows); {
		c := chunk{row: i, rows: 1, pos: int(rows[i].Pos)}
		for c.rows < most && i+c.rows < len(rows) && rows[i+c.rows].Seq == rows[i].Seq &&
			int(rows[i+c.rows].Pos) == c.pos+c.rows && (c.pos+c.rows)%tensor.AttendSplit != 0 {
			c.rows++
		}
		op.chunks = append(op.chunks, c)
		op.splits = max(op.splits, c.splits())
		i += c.rows
	}
}

func (op *attendOp) tile(worker, i int) {
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
			op.split(s, c, head, n)
			op.merge(s, c, n, s.m, s.l, s.sum)
		}
		op.finish(s, c, head)
	case phaseSplits:
		if split < c.splits() {
			op.gather(s, c, head)
			op.split(s, c, head, split)
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
	if op.rope != nil {
		op.rope.apply(op.q.row(i), pos)
		op.rope.apply(k, pos)
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
	from := split * tensor.AttendSplit
	least := min(c.pos+1-from, tensor.AttendSplit)     // positions the first row sees
	most := min(c.pos+c.rows-from, tensor.AttendSplit) // and the last one
	pages := op.batch.Seqs[op.batch.Rows[c.row].Seq].Pages[from/tensor.PageTokens:]

	scores, sum := s.scores[:n*tensor.AttendSplit], s.sum[:n*width]
	clear(scores)
	for p := 0; p*tensor.PageTokens < most; p++ {
		keys, _ := op.kv.head(pages[p], op.spec.Layer, head)
		// Whole pairs of blocks; what lies past the last position is not looked at.
		blocks := (min(most-p*tensor.PageTokens, tensor.PageTokens) + 2*lanes - 1) / (2 * lanes) * 2
		k.f32(scores[p*tensor.PageTokens:], tensor.AttendSplit, keys, hd*lanes, blocks, s.q, hd, n, hd)
	}
	clear(sum)
	for i := range n {
		seen := min(least+i/group, tensor.AttendSplit)
		s.m[i], s.l[i] = k.softmax(scores[i*tensor.AttendSplit:][:seen], op.spec.Scale)
	}
	op.weigh(sum, scores, pages, head, n, 0, least)
	for i := range n { // later rows see a few positions more
		if seen := min(least+i/group, tensor.AttendSplit); seen > least {
			op.weigh(sum[i*width:], scores[i*tensor.AttendSplit:], pages, head, 1, least, seen)
		}
	}
}

// weigh adds the values of positions [from, to) of a split, weighted, to n sums.
func (op *attendOp) weigh(sum, weights []float32, pages []int32, head, n, from, to int) {
	for from < to {
		p, at := from/tensor.PageTokens, from%tensor.PageTokens
		count := min(to-from, tensor.PageTokens-at)
		_, values := op.kv.head(pages[p], op.spec.Layer, head)
		op.d.k.f32(sum, op.headWidth, values[at*lanes:], tensor.PageTokens*lanes, op.kv.vBlocks,
			weights[from:], tensor.AttendSplit, n, count)
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
		a, b := exp32(s.runM[i]-top), exp32(m[i]-top)
		s.runL[i] = fma32(s.runL[i], a, float32(l[i]*b))
		op.d.k.blend(run, part, a, b)
		s.runM[i] = top
	}
}

// finish divides by the sums of weights and writes the result.
func (op *attendOp) finish(s *attendScratch, c chunk, head int) {
	hd, group := op.spec.HeadDim, op.group()
	for i := range c.rows * group {
		out := op.dst.row(c.row + i/group)[(head*group+i%group)*hd:][:hd]
		op.d.k.scale(out, s.run[i*op.headWidth:], 1/s.runL[i])
	}
}
