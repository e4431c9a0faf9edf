package cpu

import (
	"runtime"

	"whorl/tensor"
)

// attendBackOp is the task of AttendBack. A tile is one sequence and key/value head: it
// walks the positions in splits, and for each split all rows that see some of it, in
// chunks. So dk and dv of a split are sums over rising rows, and dq of a row one over rising
// positions, whatever the chunks. What a tile takes grows with the rows, not with their square.
type attendBackOp struct {
	attendOp   // for the rules of seeing and scoring
	dq, dk, dv *buffer
	dout, out  *buffer
	starts     []int // first rows of the sequences, and their end
}

// backVectors is about how many query vectors a chunk has.
const backVectors = 64

// attendBackScratch is one thread's part. vectors are those of a chunk: rows times the heads that
// share a key/value head. width is a head's dimensions, padded to two blocks.
type attendBackScratch struct {
	attend attendScratch // for scoring

	key, value []float32 // [positions/16][headDim][16 positions]: of a sequence
	keyRows    []float32 // [width/16][positions][16 dimensions]
	m, inv, d  []float32 // [rows*group]: M, 1/L and D of the sequence's query vectors
	dq         []float32 // [rows*group][width]

	q, dout         []float32 // [vectors][headDim]
	begun           []bool    // [vectors]: M and L hold a split
	qRows, doutRows []float32 // [width/16][vectors][16 dimensions]
	score, dp       []float32 // [stride][AttendSplit]
	p, ds           []float32 // [AttendSplit][stride]
	dk, dv          []float32 // [AttendSplit][width]
}

// AttendBack differentiates attention.
func (d *Device) AttendBack(dq, dk, dv, dout, out, q, k, v tensor.Buffer, b *tensor.Batch, s tensor.AttendSpec) {
	d.begin()
	defer d.end()
	op := &attendBackOp{dq: dq.(*buffer), dk: dk.(*buffer), dv: dv.(*buffer), dout: dout.(*buffer), out: out.(*buffer)}
	op.d, op.spec, op.batch = d, s, b
	op.q, op.k, op.v, op.dst = q.(*buffer), k.(*buffer), v.(*buffer), op.out
	if s.Alibi != nil {
		op.slopes = floatsOf(s.Alibi.Slopes)
	}
	op.check()
	op.headWidth = (s.HeadDim + 2*lanes - 1) / (2 * lanes) * 2 * lanes
	d.pool.Run(op, (len(op.starts)-1)*s.KVHeads)
	d.rowwise(&turnBackOp{op}, len(b.Rows))
	runtime.KeepAlive(s)
}

// turnBackOp turns gradients by rotated rows back; tile i is row i.
type turnBackOp struct{ *attendBackOp }

func (op *turnBackOp) Tile(_, i int) {
	r := op.batch.Rows[i]
	if t := op.rope(r.Seq); t != nil {
		t.turnBack(op.dq.row(i), int(r.Pos))
		t.turnBack(op.dk.row(i), int(r.Pos))
	}
}

// check panics on operands that do not fit, and finds the sequences.
func (op *attendBackOp) check() {
	s, n := &op.spec, len(op.batch.Rows)
	if !(s.KVHeads > 0 && s.Heads%s.KVHeads == 0 && s.HeadDim > 0 && s.Window >= 0 && s.Softcap >= 0) {
		bug("back through attention of %d/%d heads of %d in a window of %d, scores capped at %v", s.Heads, s.KVHeads, s.HeadDim, s.Window, s.Softcap)
	}
	for _, b := range [...]*buffer{op.q, op.dq, op.out, op.dout} {
		if !(b.cols == s.Heads*s.HeadDim && b.rows >= n) {
			bug("%d rows back through attention: queries or results %dx%d", n, b.rows, b.cols)
		}
	}
	for _, b := range [...]*buffer{op.k, op.dk, op.v, op.dv} {
		if !(b.cols == s.KVHeads*s.HeadDim && b.rows >= n) {
			bug("%d rows back through attention: keys or values %dx%d", n, b.rows, b.cols)
		}
	}
	if s.Alibi != nil && len(op.slopes) != s.Heads {
		bug("back through attention with %d slopes for %d heads", len(op.slopes), s.Heads)
	}
	for i, r := range op.batch.Rows {
		switch {
		case !(r.Seq >= 0 && int(r.Seq) < len(op.batch.Seqs)):
			bug("row %d: sequence %d of %d", i, r.Seq, len(op.batch.Seqs))
		case r.Pos == 0:
			op.starts = append(op.starts, i)
		case !(i > 0 && op.batch.Rows[i-1] == tensor.Row{Seq: r.Seq, Pos: r.Pos - 1}):
			bug("row %d at position %d does not follow the row before", i, r.Pos)
		}
		if t := op.rope(r.Seq); t != nil {
			if t.spec.HeadDim != s.HeadDim {
				bug("row %d: rope over heads of %d for heads of %d", i, t.spec.HeadDim, s.HeadDim)
			}
			t.reach(int(r.Pos))
		}
	}
	op.starts = append(op.starts, n)
}

// attendBackTile is a sequence and key/value head.
type attendBackTile struct {
	*attendBackOp
	s           *attendBackScratch
	head        int
	first, rows int // of the sequence
	positions   int // padded to whole pairs of blocks
	group, most int // heads that share the keys; rows of a chunk
	stride      int // vectors of a chunk, padded to whole blocks
}

func (op *attendBackOp) Tile(worker, i int) {
	seq := i / op.spec.KVHeads
	t := attendBackTile{attendBackOp: op, s: &op.d.scratch[worker].attBack, head: i % op.spec.KVHeads, first: op.starts[seq], group: op.group()}
	t.rows = op.starts[seq+1] - t.first
	t.positions = (t.rows + 2*lanes - 1) / (2 * lanes) * 2 * lanes
	t.most = max(1, backVectors/t.group)
	t.stride = (t.most*t.group + lanes - 1) / lanes * lanes
	t.grow()
	t.pack()
	for c := 0; c < t.rows; c += t.most {
		t.normalisers(c, min(t.most, t.rows-c))
	}
	for at := 0; at < t.rows; at += tensor.AttendSplit {
		t.split(at)
	}
	hd := op.spec.HeadDim
	for i := range t.rows * t.group {
		copy(op.dq.row(t.first + i/t.group)[(t.head*t.group+i%t.group)*hd:][:hd], t.s.dq[i*op.headWidth:])
	}
}

func (t *attendBackTile) grow() {
	s, hd, width, vectors, all := t.s, t.spec.HeadDim, t.headWidth, t.most*t.group, t.rows*t.group
	s.attend.grow(vectors, hd, width)
	s.key, s.value, s.keyRows = grown(s.key, t.positions*hd), grown(s.value, t.positions*hd), grown(s.keyRows, t.positions*width)
	s.m, s.inv, s.d, s.dq = grown(s.m, all), grown(s.inv, all), grown(s.d, all), grown(s.dq, all*width)
	s.begun = grown(s.begun, vectors)
	s.q, s.dout = grown(s.q, vectors*hd), grown(s.dout, vectors*hd)
	s.qRows, s.doutRows = grown(s.qRows, vectors*width), grown(s.doutRows, vectors*width)
	tile := t.stride * tensor.AttendSplit
	s.score, s.dp, s.p, s.ds = grown(s.score, tile), grown(s.dp, tile), grown(s.p, tile), grown(s.ds, tile)
	s.dk, s.dv = grown(s.dk, tensor.AttendSplit*width), grown(s.dv, tensor.AttendSplit*width)
}

// pack brings keys and values in the form in which kernels meet them.
func (t *attendBackTile) pack() {
	s, hd, at := t.s, t.spec.HeadDim, t.head*t.spec.HeadDim
	clear(s.key)
	clear(s.value)
	clear(s.keyRows)
	clear(s.dq)
	for i := range t.rows {
		k, v := t.k.row(t.first + i)[at:at+hd], t.v.row(t.first + i)[at:at+hd]
		to := i/lanes*lanes*hd + i%lanes
		for c := range hd {
			s.key[to+c*lanes], s.value[to+c*lanes] = k[c], v[c]
		}
		packRow(s.keyRows, k, i, t.positions)
	}
}

// packRow puts row i of n in its place: [block of dimensions][n][16].
func packRow(dst, row []float32, i, n int) {
	for c := 0; c < len(row); c += lanes {
		copy(dst[(c/lanes*n+i)*lanes:], row[c:min(c+lanes, len(row))])
	}
}

// gather copies the query vectors of a chunk, and their gradients.
func (t *attendBackTile) gather(c, rows int) {
	n := t.group * t.spec.HeadDim
	for r := range rows {
		copy(t.s.q[r*n:(r+1)*n], t.q.row(t.first + c + r)[t.head*n:])
		copy(t.s.dout[r*n:(r+1)*n], t.dout.row(t.first + c + r)[t.head*n:])
	}
}

// products fills dst with the products of a chunk's vectors x and the keys, or values, of the
// split at, which they see in [from, to).
func (t *attendBackTile) products(dst, keys, x []float32, at, from, to, rows int) {
	hd := t.spec.HeadDim
	n := rows * t.group
	clear(dst[:n*tensor.AttendSplit])
	b0, b1 := from/(2*lanes)*2, (to+2*lanes-1)/(2*lanes)*2
	t.d.k.f32(dst[b0*lanes:], tensor.AttendSplit, keys[(at+b0*lanes)*hd:], hd*lanes, b1-b0, x, hd, n, hd, nil)
}

// seenBy is what rows [c, c+rows) see of the split at: all of it together, and the first and last
// row of them.
func (t *attendBackTile) seenBy(c, rows, at int) (from, to int) {
	split := at / tensor.AttendSplit
	from, _ = t.seen(c, split)
	_, to = t.seen(c+rows-1, split)
	return from, to
}

// normalisers makes M, 1/L and D of the query vectors of rows [c, c+rows).
func (t *attendBackTile) normalisers(c, rows int) {
	s, hd := t.s, t.spec.HeadDim
	t.gather(c, rows)
	n, base := rows*t.group, c*t.group
	begun := s.begun[:n]
	clear(begun)
	for at := t.start(c) / tensor.AttendSplit * tensor.AttendSplit; at < c+rows; at += tensor.AttendSplit {
		from, to := t.seenBy(c, rows, at)
		t.products(s.score, s.key, s.q, at, from, to, rows)
		if t.slopes != nil {
			t.bias(&s.attend, t.head, at+from, at+to)
		}
		for i := range n {
			from, to := t.seen(c+i/t.group, at/tensor.AttendSplit)
			if from >= to {
				continue
			}
			m, l := t.soften(&s.attend, s.score[i*tensor.AttendSplit:], i%t.group, from, to)
			if !begun[i] {
				begun[i], s.m[base+i], s.inv[base+i] = true, m, l
				continue
			}
			top := max(s.m[base+i], m)
			a, b := exp32OrOne(s.m[base+i]-top), exp32OrOne(m-top)
			s.m[base+i], s.inv[base+i] = top, fma32(s.inv[base+i], a, float32(l*b))
		}
	}
	for i := range n {
		s.inv[base+i] = 1 / s.inv[base+i]
		out := t.out.row(t.first + c + i/t.group)[(t.head*t.group+i%t.group)*hd:][:hd]
		s.d[base+i] = dot16(s.dout[i*hd:][:hd], out)
	}
}

// dot16 is sum(a*b) in lanes.
func dot16(a, b []float32) float32 {
	var acc [lanes]float32
	for i, v := range a {
		acc[i%lanes] = fma32(v, b[i], acc[i%lanes])
	}
	return tree(&acc)
}

// split does the positions of one split: all of their dk and dv, and what they add to dq.
func (t *attendBackTile) split(at int) {
	s, hd, width := t.s, t.spec.HeadDim, t.headWidth
	n := min(tensor.AttendSplit, t.rows-at)
	clear(s.dk)
	clear(s.dv)
	last := t.rows // rows from here on see nothing of it
	if t.spec.Window > 0 {
		last = min(last, at+n-1+t.spec.Window)
	}
	for c := at; c < last; c += t.most {
		t.chunk(c, min(t.most, last-c), at)
	}
	for i := range n {
		copy(t.dk.row(t.first + at + i)[t.head*hd:][:hd], s.dk[i*width:])
		copy(t.dv.row(t.first + at + i)[t.head*hd:][:hd], s.dv[i*width:])
	}
}

// chunk does the rows [c, c+rows) of a split.
func (t *attendBackTile) chunk(c, rows, at int) {
	s, hd := t.s, t.spec.HeadDim
	n, base, split := rows*t.group, c*t.group, at/tensor.AttendSplit
	from, to := t.seenBy(c, rows, at)
	t.gather(c, rows)
	t.products(s.score, s.key, s.q, at, from, to, rows)
	t.products(s.dp, s.value, s.dout, at, from, to, rows)
	if t.slopes != nil {
		t.bias(&s.attend, t.head, at+from, at+to)
	}
	clear(s.qRows)
	clear(s.doutRows)
	for i := range n {
		packRow(s.qRows, s.q[i*hd:][:hd], i, n)
		packRow(s.doutRows, s.dout[i*hd:][:hd], i, n)
		from, to := t.seen(c+i/t.group, split)
		x, dp := s.score[i*tensor.AttendSplit:][:tensor.AttendSplit], s.dp[i*tensor.AttendSplit:][:tensor.AttendSplit]
		if from < to {
			t.weigh1(x[from:to], dp[from:to], i%t.group, from, s.m[base+i], s.inv[base+i], s.d[base+i])
		}
	}
	for i := 0; i < n; i += lanes { // what lies beyond is turned too, and not looked at
		for j := from / lanes * lanes; j < to; j += lanes {
			t.d.k.turn(s.p[j*t.stride+i:], t.stride, s.score[i*tensor.AttendSplit+j:], tensor.AttendSplit)
			t.d.k.turn(s.ds[j*t.stride+i:], t.stride, s.dp[i*tensor.AttendSplit+j:], tensor.AttendSplit)
		}
	}
	t.addQueries(c, rows, at)
	t.addKeys(c, rows, at, from, to)
}

// weigh1 turns q·k of one query vector at positions from.. of a split into weights, and
// dout·v into the gradient by q·k. head counts within its group.
func (t *attendBackTile) weigh1(x, dp []float32, head, from int, m, inv, d float32) {
	k, scale := t.d.k, t.spec.Scale
	k.scale(x, x, scale)
	if t.slopes != nil {
		k.add(x, x, t.s.attend.bias[head*tensor.AttendSplit+from:])
	}
	limit := t.spec.Softcap
	if limit != 0 {
		k.softcap(x, limit)
	}
	k.weigh(x, dp, m, inv, d, scale, limit)
}

// addQueries continues dq of the chunk's rows over the positions of a split.
func (t *attendBackTile) addQueries(c, rows, at int) {
	split := at / tensor.AttendSplit
	_, least := t.seen(c, split)
	late, _ := t.seen(c+rows-1, split)
	least = max(least, late)
	add := func(i, n, from, to int) {
		if from < to {
			t.d.k.f32(t.s.dq[(c*t.group+i)*t.headWidth:], t.headWidth, t.s.keyRows[(at+from)*lanes:], t.positions*lanes, t.headWidth/lanes,
				t.s.dp[i*tensor.AttendSplit+from:], tensor.AttendSplit, n, to-from, nil)
		}
	}
	for r := range rows {
		from, to := t.seen(c+r, split)
		add(r*t.group, t.group, from, min(to, late))
	}
	add(0, rows*t.group, late, least)
	for r := range rows {
		_, to := t.seen(c+r, split)
		add(r*t.group, t.group, least, to)
	}
}

// addKeys continues dk and dv of positions [from, to) of a split over the chunk's rows.
func (t *attendBackTile) addKeys(c, rows, at, from, to int) {
	s, n, blocks := t.s, rows*t.group, t.headWidth/lanes
	add := func(j, count, first, end int) { // of count positions, over vectors [first, end)
		if first < end {
			k := end - first
			t.d.k.f32(s.dv[j*t.headWidth:], t.headWidth, s.doutRows[first*lanes:], n*lanes, blocks, s.p[j*t.stride+first:], t.stride, count, k, nil)
			t.d.k.f32(s.dk[j*t.headWidth:], t.headWidth, s.qRows[first*lanes:], n*lanes, blocks, s.ds[j*t.stride+first:], t.stride, count, k, nil)
		}
	}
	for j := from; j < to; {
		first, end := t.seeing(c, rows, at+j)
		count := 1
		for j+count < to {
			if f, e := t.seeing(c, rows, at+j+count); f != first || e != end {
				break
			}
			count++
		}
		add(j, count, first*t.group, end*t.group)
		j += count
	}
}

// seeing is which of rows [c, c+rows) see a position: [first, end), counted from c.
func (t *attendBackTile) seeing(c, rows, pos int) (first, end int) {
	first, end = max(pos-c, 0), rows
	if w := t.spec.Window; w > 0 {
		end = min(end, pos+w-c)
	}
	return first, end
}
