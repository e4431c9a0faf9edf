package jinja

// absent is what bind returns for a parameter that was not given.
type absentValue struct{}

var absent = absentValue{}

// bind gives each parameter of a function the argument passed for it. what
// names the function in errors.
func (a passed) bind(what string, parameters ...string) []Value {
	if len(a.positional) > len(parameters) {
		fail("%s takes at most %d arguments, %d given", what, len(parameters), len(a.positional))
	}
	out := make([]Value, len(parameters))
	for i := range out {
		out[i] = absent
	}
	copy(out, a.positional)
next:
	for i, name := range a.names {
		for j, p := range parameters {
			if p != name {
				continue
			}
			if out[j] != absent {
				fail("%s got multiple values for argument '%s'", what, name)
			}
			out[j] = a.named[i]
			continue next
		}
		fail("%s got an unexpected keyword argument '%s'", what, name)
	}
	return out
}

// must refuses a parameter that was not given.
func must(what, parameter string, v Value) Value {
	if v == absent {
		fail("%s is missing the argument '%s'", what, parameter)
	}
	return v
}

func stringOf(what string, v Value) string {
	s, ok := v.(string)
	if !ok {
		if u, ok := v.(*undefined); ok {
			fail("%s", u.message)
		}
		fail("%s wants a str, not %s", what, typeName(v))
	}
	return s
}

func stringOr(what string, v Value, otherwise string) string {
	if v == absent {
		return otherwise
	}
	return stringOf(what, v)
}

func wholeOf(what string, v Value) int {
	n, ok := wholeNumber(v)
	if !ok {
		if u, ok := v.(*undefined); ok {
			fail("%s", u.message)
		}
		fail("%s wants an int, not %s", what, typeName(v))
	}
	const most = 1 << 40 // beyond any size here, and safe to add to
	return int(min(max(n, -most), most))
}

func wholeOr(what string, v Value, otherwise int) int {
	if v == absent || v == nil {
		return otherwise
	}
	return wholeOf(what, v)
}

func truthOr(v Value, otherwise bool) bool {
	if v == absent {
		return otherwise
	}
	return truth(v)
}
