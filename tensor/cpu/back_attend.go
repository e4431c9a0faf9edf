package cpu

import (
	"math"
	"runtime"
	"sync/atomic"

	"whorl/tensor"
)

// attendBackOp is the task of AttendBack. A tile is one split of the positions of a sequence and
// key/value head: all rows that see some of it walk by, in chunks. So dk and dv of a split are sums
// over rising rows, whatever the chunks. dq of a row is one over rising positions: a tile adds to it
// once that of the split before has. What all take grows with the rows, not with their square.
type attendBackOp struct {
	attendOp   // for the rules of seeing and scoring
	dq, dk, dv *buffer
	dout, out  *buffer
	starts     []int // first rows of the sequences, and their end

	sums  *attendBackSums
	tiles []attendBackPlace // in an order in which none waits for one that comes later
	next  atomic.Int64      // the tile that is taken next
	// done are the rows of its sequence whose dq a tile has added to: those before it. A number
	// beyond all rows says that the tile is over.
	done []atomic.Int64
}

// attendBackPlace is where a tile lies.
type attendBackPlace struct {
	seq, head, split int
	before           int // the tile of the split before; -1: none
}

// attendBackSums is what the tiles of an op share.
type attendBackSums struct {
	dq []float32 // [KVHeads][rows][group][width]
	d  []float32 // [KVHeads][rows][group]: D
}

// backVectors is about how many query vectors a chunk has: whole runs of the rows that kernels take.
const backVectors = 72

// attendBackScratch is one thread's part. vectors are those of a chunk: rows times the heads that
// share a key/value head. width is a head's dimensions, padded to two blocks.
type attendBackScratch struct {
	attend attendScratch // for biases

	key, value []float32 // [AttendSplit/16][headDim][16 positions]
	keyRows    []float32 // [width/16][AttendSplit][16 dimensions]

	q, dout         []float32 // [vectors][headDim]
	qRows, doutRows []float32 // [width/16][vectors][16 dimensions]
	score, dp       []float32 // [stride][AttendSplit]
	p, ds           []float32 // [AttendSplit][stride]
	dk, dv          []float32 // [AttendSplit][width]
}

// AttendBack differentiates attention.
func (d *Device) AttendBack(dq, dk, dv, dout, out, q, k, v tensor.Buffer, b *tensor.Batch, s tensor.AttendSpec) {
	d.begin()
	defer d.end()
	op := &attendBackOp{dq: dq.(*buffer), dk: dk.(*buffer), dv: dv.(*buffer), dout: dout.(*buffer), out: out.(*buffer), sums: &d.attendBack}
	op.d, op.spec, op.batch = d, s, b
	op.q, op.k, op.v, op.dst = q.(*buffer), k.(*buffer), v.(*buffer), op.out
	if s.Totals != nil {
		op.totals = s.Totals.(*buffer)
	}
	if s.Alibi != nil {
		op.slopes = floatsOf(s.Alibi.Slopes)
	}
	op.check()
	op.headWidth = (s.HeadDim + 2*lanes - 1) / (2 * lanes) * 2 * lanes
	n := len(b.Rows)
	op.sums.dq, op.sums.d = grown(op.sums.dq, n*s.Heads*op.headWidth), grown(op.sums.d, n*s.Heads)
	d.rowwise(&beginBackOp{op}, n)
	op.place()
	d.pool.Run(op, len(op.tiles))
	d.rowwise(&turnBackOp{op}, n)
	runtime.KeepAlive(s)
}

// place lists the tiles. Those of the first splits come first: these have the most rows, and who waits
// for them is far behind.
func (op *attendBackOp) place() {
	last := map[[2]int]int{} // tiles of a sequence and head
	for split, some := 0, true; some; split++ {
		some = false
		for seq := range len(op.starts) - 1 {
			if op.starts[seq+1]-op.starts[seq] <= split*tensor.AttendSplit {
				continue
			}
			some = true
			for head := range op.spec.KVHeads {
				place := attendBackPlace{seq, head, split, -1}
				if split > 0 {
					place.before = last[[2]int{seq, head}]
				}
				last[[2]int{seq, head}] = len(op.tiles)
				op.tiles = append(op.tiles, place)
			}
		}
	}
	op.done = make([]atomic.Int64, len(op.tiles))
}

// vectorsOf is where the query vectors of a row of the batch and key/value head lie among all.
func (op *attendBackOp) vectorsOf(head, row int) int {
	return (head*len(op.batch.Rows) + row) * op.group()
}

// beginBackOp begins the sums of row i: D, and dq as nothing.
type beginBackOp struct{ *attendBackOp }

func (op *beginBackOp) Tile(_, i int) {
	hd, group := op.spec.HeadDim, op.group()
	out, dout := op.out.row(i), op.dout.row(i)
	for head := range op.spec.KVHeads {
		at := op.vectorsOf(head, i)
		clear(op.sums.dq[at*op.headWidth:][:group*op.headWidth])
		for g := range group {
			from := (head*group + g) * hd
			op.sums.d[at+g] = op.d.k.dot(dout[from:from+hd], out[from:from+hd])
		}
	}
}

// turnBackOp brings dq of row i to its place, and turns gradients by rotated rows back.
type turnBackOp struct{ *attendBackOp }

func (op *turnBackOp) Tile(_, i int) {
	hd, group := op.spec.HeadDim, op.group()
	for h := range op.spec.Heads {
		copy(op.dq.row(i)[h*hd:][:hd], op.sums.dq[(op.vectorsOf(h/group, i)+h%group)*op.headWidth:])
	}
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
	if t := op.totals; !(t != nil && t.cols == 2*s.Heads && t.rows >= n) {
		bug("%d rows back through attention of %d heads without their totals", n, s.Heads)
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

// attendBackTile is a split of a sequence and key/value head.
type attendBackTile struct {
	*attendBackOp
	attendBackPlace
	s           *attendBackScratch
	number      int // among the tiles
	first, rows int // of the sequence
	group, most int // heads that share the keys; rows of a chunk
	stride      int // vectors of a chunk, padded to whole blocks
}

// Tile does the next tile of the list, whichever the pool meant: the ones before it are taken then, so
// that it may wait for them.
func (op *attendBackOp) Tile(worker, _ int) {
	i := int(op.next.Add(1)) - 1
	defer op.done[i].Store(math.MaxInt64) // whatever happens: others wait
	t := attendBackTile{attendBackOp: op, attendBackPlace: op.tiles[i], s: &op.d.scratch[worker].attBack, number: i, group: op.group()}
	t.first = op.starts[t.seq]
	t.rows = op.starts[t.seq+1] - t.first
	t.most = max(1, backVectors/t.group)
	t.stride = (t.most*t.group + lanes - 1) / lanes * lanes
	t.grow()
	t.run()
}

func (t *attendBackTile) grow() {
	s, hd, width, vectors := t.s, t.spec.HeadDim, t.headWidth, t.most*t.group
	const split = tensor.AttendSplit
	if t.slopes != nil {
		s.attend.bias = grown(s.attend.bias, t.group*split)
	}
	s.key, s.value, s.keyRows = grown(s.key, split*hd), grown(s.value, split*hd), grown(s.keyRows, split*width)
	s.q, s.dout = grown(s.q, vectors*hd), grown(s.dout, vectors*hd)
	s.qRows, s.doutRows = grown(s.qRows, vectors*width), grown(s.doutRows, vectors*width)
	tile := t.stride * split
	s.score, s.dp, s.p, s.ds = grown(s.score, tile), grown(s.dp, tile), grown(s.p, tile), grown(s.ds, tile)
	s.dk, s.dv = grown(s.dk, split*width), grown(s.dv, split*width)
}

// run does the positions of the split: all of their dk and dv, and what they add to dq.
func (t *attendBackTile) run() {
	s, hd, width := t.s, t.spec.HeadDim, t.headWidth
	at := t.split * tensor.AttendSplit
	n := min(tensor.AttendSplit, t.rows-at)
	t.pack(at, n)
	clear(s.dk[:n*width])
	clear(s.dv[:n*width])
	last := t.rows // rows from here on see nothing of it
	if t.spec.Window > 0 {
		last = min(last, at+n-1+t.spec.Window)
	}
	for c := at; c < last; c += t.most {
		rows := min(t.most, last-c)
		t.chunk(c, rows, at)
		t.done[t.number].Store(int64(c + rows))
	}
	for i := range n {
		copy(t.dk.row(t.first + at + i)[t.head*hd:][:hd], s.dk[i*width:])
		copy(t.dv.row(t.first + at + i)[t.head*hd:][:hd], s.dv[i*width:])
	}
}

// pack brings the keys and values of n positions from at on in the form in which kernels meet them.
func (t *attendBackTile) pack(at, n int) {
	s, hd, row := t.s, t.spec.HeadDim, t.first+at
	for _, m := range [...]struct {
		to   []float32
		from *buffer
	}{{s.key, t.k}, {s.value, t.v}} {
		whole := n / lanes * lanes // positions that fill blocks
		if hd%lanes != 0 {
			whole = 0
		}
		for i := 0; i < whole; i += lanes {
			for c := 0; c < hd; c += lanes {
				t.d.k.turn(m.to[i*hd+c*lanes:], lanes, m.from.data[(row+i)*m.from.cols+t.head*hd+c:], m.from.cols)
			}
		}
		padded := (n + 2*lanes - 1) / (2 * lanes) * 2 * lanes // to whole pairs of blocks
		clear(m.to[whole*hd : padded*hd])
		for i := whole; i < n; i++ {
			to := m.to[i/lanes*lanes*hd+i%lanes:]
			for c, x := range m.from.row(row + i)[t.head*hd:][:hd] {
				to[c*lanes] = x
			}
		}
	}
	for i := range n {
		packRow(s.keyRows, t.k.row(row + i)[t.head*hd:][:hd], i, tensor.AttendSplit)
	}
}

// packRow puts row i of n in its place: [block of dimensions][n][16].
func packRow(dst, row []float32, i, n int) {
	for ; len(row) >= lanes; row, i = row[lanes:], i+n {
		*(*[lanes]float32)(dst[i*lanes:]) = [lanes]float32(row)
	}
	if len(row) > 0 {
		copy(dst[i*lanes:], row)
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

// products fills dst with the products of a chunk's vectors x and the keys, or values, which
// they see in [from, to).
func (t *attendBackTile) products(dst, keys, x []float32, from, to, rows int) {
	hd, n := t.spec.HeadDim, rows*t.group
	b0, b1 := from/(2*lanes)*2, (to+2*lanes-1)/(2*lanes)*2
	for i := range n {
		clear(dst[i*tensor.AttendSplit:][b0*lanes : b1*lanes])
	}
	t.d.k.f32(dst[b0*lanes:], tensor.AttendSplit, keys[b0*lanes*hd:], hd*lanes, b1-b0, x, hd, n, hd, nil)
}

// seenBy is what rows [c, c+rows) see of the split: all of it together.
func (t *attendBackTile) seenBy(c, rows int) (from, to int) {
	from, _ = t.seen(c, t.split)
	_, to = t.seen(c+rows-1, t.split)
	return from, to
}

// chunk does the rows [c, c+rows).
func (t *attendBackTile) chunk(c, rows, at int) {
	s, hd := t.s, t.spec.HeadDim
	n, heads := rows*t.group, t.spec.Heads
	from, to := t.seenBy(c, rows)
	t.gather(c, rows)
	t.products(s.score, s.key, s.q, from, to, rows)
	t.products(s.dp, s.value, s.dout, from, to, rows)
	if t.slopes != nil {
		t.bias(&s.attend, t.head, at+from, at+to)
	}
	for i := range n {
		packRow(s.qRows, s.q[i*hd:][:hd], i, n)
		packRow(s.doutRows, s.dout[i*hd:][:hd], i, n)
		from, to := t.seen(c+i/t.group, t.split)
		if from >= to {
			continue
		}
		x, dp := s.score[i*tensor.AttendSplit:], s.dp[i*tensor.AttendSplit:]
		row, g := t.first+c+i/t.group, i%t.group
		total, h := t.totals.row(row), t.head*t.group+g
		t.weigh1(x[from:to], dp[from:to], g, from, total[h], 1/total[heads+h], t.sums.d[t.vectorsOf(t.head, row)+g])
	}
	for i := 0; i < n; i += lanes { // what lies beyond is turned too, and not looked at
		for j := from / lanes * lanes; j < to; j += lanes {
			t.d.k.turn(s.p[j*t.stride+i:], t.stride, s.score[i*tensor.AttendSplit+j:], tensor.AttendSplit)
			t.d.k.turn(s.ds[j*t.stride+i:], t.stride, s.dp[i*tensor.AttendSplit+j:], tensor.AttendSplit)
		}
	}
	t.addKeys(c, rows, at, from, to)
	t.wait(c + rows)
	t.addQueries(c, rows)
}

// wait returns when the split before has added to dq of the rows before end.
func (t *attendBackTile) wait(end int) {
	if t.before < 0 {
		return
	}
	for looks := 1; t.done[t.before].Load() < int64(end); looks++ {
		if looks%looksBeforeYield == 0 {
			runtime.Gosched()
		}
	}
}

// looksBeforeYield is how often a thread looks for another's sums before it lets other goroutines run.
const looksBeforeYield = 64

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

// addQueries continues dq of the chunk's rows over the positions of the split.
func (t *attendBackTile) addQueries(c, rows int) {
	_, least := t.seen(c, t.split)
	late, _ := t.seen(c+rows-1, t.split)
	least = max(least, late)
	dq := t.sums.dq[t.vectorsOf(t.head, t.first+c)*t.headWidth:]
	add := func(i, n, from, to int) {
		if from < to {
			t.d.k.f32(dq[i*t.headWidth:], t.headWidth, t.s.keyRows[from*lanes:], tensor.AttendSplit*lanes, t.headWidth/lanes,
				t.s.dp[i*tensor.AttendSplit+from:], tensor.AttendSplit, n, to-from, nil)
		}
	}
	for r := range rows {
		from, to := t.seen(c+r, t.split)
		add(r*t.group, t.group, from, min(to, late))
	}
	add(0, rows*t.group, late, least)
	for r := range rows {
		_, to := t.seen(c+r, t.split)
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
