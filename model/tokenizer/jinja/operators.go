package jinja

import (
	"math"
	"strings"
)

func (u unary) eval(r *run, s *scope) Value {
	r.step()
	v := u.of.eval(r, s)
	if u.op == "not" {
		return !truth(v)
	}
	if n, ok := wholeNumber(v); ok {
		if u.op == "-" {
			return -n
		}
		return n
	}
	if f, ok := v.(float64); ok {
		if u.op == "-" {
			return -f
		}
		return f
	}
	if x, ok := v.(*undefined); ok {
		fail("%s", x.message)
	}
	fail("bad operand type for unary %s: '%s'", u.op, typeName(v))
	return nil
}

func (b binary) eval(r *run, s *scope) Value {
	r.step()
	return r.operate(b.op, b.left.eval(r, s), b.right.eval(r, s))
}

func (r *run) operate(op string, left, right Value) Value {
	for _, v := range []Value{left, right} {
		if u, ok := v.(*undefined); ok && !(op == "%" && v == right && isString(left)) {
			fail("%s", u.message)
		}
	}
	a, aWhole := wholeNumber(left)
	b, bWhole := wholeNumber(right)
	if aWhole && bWhole {
		return wholes(op, a, b)
	}
	x, aNumber := number(left)
	y, bNumber := number(right)
	if aNumber && bNumber {
		return floats(op, x, y)
	}
	switch op {
	case "+":
		if v, ok := r.plus(left, right); ok {
			return v
		}
		if v, ok := r.plusSafe(left, right); ok {
			return v
		}
	case "*":
		if bWhole {
			if v, ok := r.repeat(left, b); ok {
				return v
			}
		} else if aWhole {
			if v, ok := r.repeat(right, a); ok {
				return v
			}
		}
	case "%":
		if format, ok := left.(string); ok {
			return r.str(r.format(format, right))
		}
	}
	fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(left), typeName(right))
	return nil
}

func isString(v Value) bool {
	_, ok := v.(string)
	return ok
}

// number is an int, a bool or a float as a float.
func number(v Value) (float64, bool) {
	if n, ok := wholeNumber(v); ok {
		return float64(n), true
	}
	f, ok := v.(float64)
	return f, ok
}

func (r *run) plus(left, right Value) (Value, bool) {
	switch left := left.(type) {
	case string:
		if right, ok := right.(string); ok {
			return r.str(left + right), true
		}
	case *List:
		if right, ok := right.(*List); ok && left.kind == right.kind && left.kind <= tupleList {
			return r.list(left.kind, append(append([]Value(nil), left.Items...), right.Items...)), true
		}
	}
	return nil, false
}

func (r *run) repeat(v Value, n int64) (Value, bool) {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		if len(v) > 0 && n > int64(r.size/len(v)) {
			fail("a text exceeds %d bytes", r.size)
		}
		return r.str(strings.Repeat(v, int(n))), true
	case *List:
		if v.kind > tupleList {
			break
		}
		if len(v.Items) > 0 && n > int64(r.size/len(v.Items)) {
			fail("a list exceeds %d elements", r.size)
		}
		r.make(element * len(v.Items) * int(n))
		var items []Value
		for range n {
			items = append(items, v.Items...)
		}
		return &List{Items: items, kind: v.kind}, true
	}
	return nil, false
}

// wholes computes with ints. Python's have no bounds; here they have.
func wholes(op string, a, b int64) Value {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		fail("division by zero")
	}
	n, over := int64(0), false
	switch op {
	case "+":
		n = a + b
		over = (n > a) != (b > 0) && b != 0
	case "-":
		n = a - b
		over = (n < a) != (b > 0) && b != 0
	case "*":
		n = a * b
		over = a != 0 && (n/a != b || a == -1 && b == math.MinInt64)
	case "/":
		return float64(a) / float64(b)
	case "//":
		if n = a / b; a%b != 0 && (a < 0) != (b < 0) {
			n--
		}
		over = a == math.MinInt64 && b == -1
	case "%":
		if n = a % b; n != 0 && (n < 0) != (b < 0) {
			n += b
		}
	case "**":
		if b < 0 {
			if a == 0 {
				fail("0.0 cannot be raised to a negative power")
			}
			return math.Pow(float64(a), float64(b))
		}
		n, over = power(a, b)
	}
	if over {
		fail("the number %d %s %d is too large", a, op, b)
	}
	return n
}

func power(a, b int64) (n int64, over bool) {
	n = 1
	switch {
	case a == 0 && b > 0, a == 1:
		return a, false
	case a == -1:
		return 1 - 2*(b%2), false
	case b > 63:
		return 0, true
	}
	for range b {
		if product := n * a; product/a != n {
			return 0, true
		} else {
			n = product
		}
	}
	return n, false
}

func floats(op string, x, y float64) Value {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		fail("float division by zero")
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	return math.Pow(x, y)
}

func (c comparison) eval(r *run, s *scope) Value {
	left := c.first.eval(r, s)
	for i, op := range c.ops {
		right := c.operands[i].eval(r, s)
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) compare(op string, left, right Value) bool {
	left, right = unsafe(left), unsafe(right)
	switch op {
	case "==":
		return r.equal(left, right, 0)
	case "!=":
		return !r.equal(left, right, 0)
	case "in":
		return r.contains(right, left)
	case "not in":
		return !r.contains(right, left)
	}
	order := r.order(op, left, right, 0)
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0 && order != unordered
	}
	return order >= 0 && order != unordered
}

func (r *run) equal(left, right Value, depth int) bool {
	r.step()
	if depth > maxDeep {
		fail("a value is nested more than %d deep", maxDeep)
	}
	x, isNumber := number(left)
	if y, ok := number(right); ok && isNumber {
		a, aWhole := wholeNumber(left)
		b, bWhole := wholeNumber(right)
		if aWhole && bWhole {
			return a == b
		}
		return x == y
	}
	switch left := left.(type) {
	case nil:
		return right == nil
	case string:
		right, ok := right.(string)
		return ok && left == right
	case *undefined:
		_, ok := right.(*undefined)
		return ok
	case *List:
		right, ok := right.(*List)
		if !ok || left.kind != right.kind || len(left.Items) != len(right.Items) {
			return false
		}
		if left.kind == generatorList {
			return left == right
		}
		for i, item := range left.Items {
			if !r.equal(item, right.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		right, ok := right.(*Dict)
		if !ok || len(left.keys) != len(right.keys) {
			return false
		}
		for i, key := range left.keys {
			if v, ok := right.get(key); !ok || !r.equal(left.values[i], v, depth+1) {
				return false
			}
		}
		return true
	case *namespace, *function, *loopState:
		return left == right
	}
	return false
}

// unordered is the order of what is neither less nor more: not a number.
const unordered = 2

// order compares two values: below, at or above 0.
func (r *run) order(op string, left, right Value, depth int) int {
	r.step()
	for _, v := range []Value{left, right} {
		if u, ok := v.(*undefined); ok {
			fail("%s", u.message)
		}
	}
	a, aWhole := wholeNumber(left)
	b, bWhole := wholeNumber(right)
	x, aNumber := number(left)
	y, bNumber := number(right)
	switch {
	case aWhole && bWhole:
		return sign(a < b, a > b)
	case aNumber && bNumber:
		if math.IsNaN(x) || math.IsNaN(y) {
			return unordered
		}
		return sign(x < y, x > y)
	}
	switch left := left.(type) {
	case string:
		if right, ok := right.(string); ok {
			return strings.Compare(left, right)
		}
	case *List:
		right, ok := right.(*List)
		if !ok || left.kind != right.kind || left.kind > tupleList || depth > maxDeep {
			break
		}
		for i, item := range left.Items {
			if i == len(right.Items) {
				return 1
			}
			if !r.equal(item, right.Items[i], depth+1) {
				return r.order(op, item, right.Items[i], depth+1)
			}
		}
		return sign(len(left.Items) < len(right.Items), false)
	}
	fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(left), typeName(right))
	return 0
}

func sign(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}

// contains is v in of.
func (r *run) contains(of, v Value) bool {
	switch of := of.(type) {
	case string:
		part, ok := v.(string)
		if !ok {
			fail("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(of, part)
	case *Dict:
		switch v.(type) {
		case *List:
			if v.(*List).kind == tupleList {
				return false
			}
		case *undefined:
			return false
		}
		_, ok := of.get(v)
		return ok
	case *List:
		for _, item := range r.items(of) {
			if item == v && hashesByIdentity(v) || r.equal(item, v, 0) {
				return true
			}
		}
		return false
	case *undefined:
		return false
	}
	fail("argument of type '%s' is not iterable", typeName(of))
	return false
}

func hashesByIdentity(v Value) bool {
	switch v.(type) {
	case *List, *Dict, *namespace, *function:
		return true
	}
	return false
}
