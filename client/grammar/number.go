package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// maxDigits is how many digits a number has at most, before its point and behind it, unless the
// schema's bounds have more: a model that begins to write digits may not find an end.
const maxDigits = 18

// maxBound is how many digits a bound may have.
const maxBound = 40

var (
	moreDigits = digits(0, maxDigits)
	anyInteger = alt(text("0"), seq(maybe(text("-")), chars("19"), digits(0, maxDigits-1)))
	anyNumber  = seq(maybe(text("-")), alt(text("0"), seq(chars("19"), digits(0, maxDigits-1))),
		maybe(seq(text("."), digits(1, maxDigits))), maybe(seq(chars("eeEE"), maybe(chars("++--")), digits(1, 2))))
)

// decimal is a number that is not negative: digits before and behind the point, without zeros
// that mean nothing.
type decimal struct{ whole, part string }

// bound is where a range of numbers begins or ends.
type bound struct {
	decimal
	negative, strict bool
}

// readBound reads a number of a schema.
func readBound(n json.Number, strict bool) (bound, error) {
	r, ok := new(big.Rat).SetString(string(n))
	if e := strings.IndexAny(string(n), "eE"); !ok || len(n) > maxBound || e >= 0 && len(n)-e > 4 {
		return bound{}, fmt.Errorf("the bound %.50s has too many digits", n)
	}
	b := bound{negative: r.Sign() < 0, strict: strict}
	places := 0
	for den := new(big.Rat).Set(r); !den.IsInt(); places++ {
		den.Mul(den, big.NewRat(10, 1))
	}
	b.whole, b.part, _ = strings.Cut(new(big.Rat).Abs(r).FloatString(places), ".")
	if len(b.whole) > maxBound || len(b.part) > maxBound {
		return bound{}, fmt.Errorf("the bound %.50s has too many digits", n)
	}
	return b, nil
}

// numbers are those from lo to hi, nil for no bound, of at most so many decimal places.
func numbers(lo, hi *bound, places int) *expr {
	below := func(b *bound) *bound { c := *b; c.negative = !c.negative; return &c }
	var kids []*expr
	if hi == nil || !hi.negative {
		from := lo
		if from == nil || from.negative {
			from = &bound{decimal: decimal{whole: "0"}}
		}
		kids = append(kids, positive(from, hi, places))
	}
	if lo == nil || lo.negative {
		from := &bound{decimal: decimal{whole: "0"}, strict: true}
		if hi != nil && hi.negative {
			from = below(hi)
		}
		var to *bound
		if lo != nil {
			to = below(lo)
		}
		kids = append(kids, seq(text("-"), positive(from, to, places)))
	}
	return alt(kids...)
}

// positive are the numbers from lo to hi, nil for no bound, none of which is negative.
func positive(lo, hi *bound, places int) *expr {
	least := len(lo.whole)
	above := plusOne(lo.whole)
	if hi == nil {
		return alt(
			seq(wholes(above, strings.Repeat("9", max(maxDigits, least))), fraction(nil, nil, places)),
			seq(text(lo.whole), fraction(lo, nil, places)))
	}
	switch compare(lo.whole, hi.whole) {
	case 1:
		return never
	case 0:
		return seq(text(lo.whole), fraction(lo, hi, places))
	}
	return alt(
		seq(text(lo.whole), fraction(lo, nil, places)),
		seq(wholes(above, minusOne(hi.whole)), fraction(nil, nil, places)),
		seq(text(hi.whole), fraction(nil, hi, places)))
}

// compare compares whole numbers.
func compare(a, b string) int {
	if len(a) != len(b) {
		if len(a) < len(b) {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

func plusOne(s string) string  { return added(s, 1) }
func minusOne(s string) string { return added(s, -1) }

func added(s string, n int64) string {
	x, _ := new(big.Int).SetString(s, 10)
	return x.Add(x, big.NewInt(n)).String()
}

// wholes are the whole numbers from a to b, neither of which is negative.
func wholes(a, b string) *expr {
	if compare(a, b) > 0 {
		return never
	}
	var kids []*expr
	for n := len(a); n <= len(b); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(a) {
			from = a
		}
		if n == len(b) {
			to = b
		}
		kids = append(kids, sameLength(from, to))
	}
	return alt(kids...)
}

// sameLength are the digits from a to b, which are equally many.
func sameLength(a, b string) *expr {
	n := len(a)
	if n == 0 {
		return nothing
	}
	if strings.Trim(a[1:], "0") == "" && strings.Trim(b[1:], "9") == "" {
		return seq(chars(a[:1]+b[:1]), digits(n-1, n-1))
	}
	if a[0] == b[0] {
		return seq(text(a[:1]), sameLength(a[1:], b[1:]))
	}
	kids := []*expr{seq(text(a[:1]), sameLength(a[1:], strings.Repeat("9", n-1)))}
	if a[0]+1 < b[0] {
		kids = append(kids, seq(chars(string([]byte{a[0] + 1, b[0] - 1})), digits(n-1, n-1)))
	}
	return alt(append(kids, seq(text(b[:1]), sameLength(strings.Repeat("0", n-1), b[1:])))...)
}

// fraction is what may stand behind the digits of a bound: a point and at least one digit, or
// nothing.
func fraction(lo, hi *bound, places int) *expr {
	f := fractions{places}
	from, to := "", ""
	noneLow, noneHigh := true, true // a number without a fraction is within the bound
	fromStrict, toStrict := false, false
	if lo != nil {
		from, fromStrict = lo.part, lo.strict
		noneLow = from == "" && !fromStrict
	}
	if hi != nil {
		to, toStrict = hi.part, hi.strict
		noneHigh = to != "" || !toStrict
	}
	var behind *expr
	switch {
	case lo == nil && hi == nil:
		behind = digits(1, places)
	case hi == nil:
		behind = f.atLeast(from, fromStrict, 0)
	case lo == nil:
		behind = f.atMost(to, toStrict, 0)
	default:
		behind = f.between(from, fromStrict, to, toStrict, 0)
	}
	if places == 0 {
		behind = never
	}
	point := seq(text("."), behind)
	if noneLow && noneHigh {
		return maybe(point)
	}
	return point
}

// fractions is how many digits may stand behind a point; at counts those that do already.
type fractions struct{ most int }

// rest are digits of any kind behind others.
func (f fractions) rest(at int) *expr { return digits(0, max(0, f.most-at)) }

// end lets the digits end here, where one is there.
func (f fractions) end(at int) *expr {
	if at == 0 {
		return never
	}
	return nothing
}

// atLeast are the digits whose value is at least that of low.
func (f fractions) atLeast(low string, strict bool, at int) *expr {
	if low == "" {
		if !strict {
			return digits(f.first(at), max(0, f.most-at))
		}
		var kids []*expr
		for n := at; n < f.most; n++ {
			kids = append(kids, seq(text(strings.Repeat("0", n-at)), chars("19"), f.rest(n+1)))
		}
		return alt(kids...)
	}
	if at >= f.most {
		return never
	}
	kids := []*expr{seq(text(low[:1]), f.atLeast(low[1:], strict, at+1))}
	if low[0] < '9' {
		kids = append(kids, seq(chars(string([]byte{low[0] + 1, '9'})), f.rest(at+1)))
	}
	return alt(kids...)
}

// first is how many digits there have to be more.
func (f fractions) first(at int) int {
	if at == 0 {
		return 1
	}
	return 0
}

// atMost are the digits whose value is at most that of high, which does not end in a zero.
func (f fractions) atMost(high string, strict bool, at int) *expr {
	if high == "" {
		if strict {
			return never
		}
		return repeat(text("0"), f.first(at), max(0, f.most-at))
	}
	if at >= f.most {
		return f.end(at)
	}
	kids := []*expr{f.end(at), seq(text(high[:1]), f.atMost(high[1:], strict, at+1))}
	if high[0] > '0' {
		kids = append(kids, seq(chars(string([]byte{'0', high[0] - 1})), f.rest(at+1)))
	}
	return alt(kids...)
}

// between are the digits from low to high.
func (f fractions) between(low string, lowStrict bool, high string, highStrict bool, at int) *expr {
	if low == "" && high == "" {
		if lowStrict || highStrict {
			return never
		}
		return repeat(text("0"), f.first(at), max(0, f.most-at))
	}
	stop := never
	if low == "" && !lowStrict {
		stop = f.end(at)
	}
	if at >= f.most {
		return stop
	}
	a, b := byte('0'), byte('0')
	nextLow, nextHigh := "", ""
	if low != "" {
		a, nextLow = low[0], low[1:]
	}
	if high != "" {
		b, nextHigh = high[0], high[1:]
	}
	switch {
	case a > b:
		return stop
	case a == b:
		return alt(stop, seq(text(string(a)), f.between(nextLow, lowStrict, nextHigh, highStrict, at+1)))
	}
	kids := []*expr{stop, seq(text(string(a)), f.atLeast(nextLow, lowStrict, at+1)), seq(text(string(b)), f.atMost(nextHigh, highStrict, at+1))}
	if a+1 < b {
		kids = append(kids, seq(chars(string([]byte{a + 1, b - 1})), f.rest(at+1)))
	}
	return alt(kids...)
}
