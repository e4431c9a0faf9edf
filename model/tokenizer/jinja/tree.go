package jinja

// expression is a node that has a value.
type expression interface {
	eval(r *run, s *scope) Value
}

// statement is a node that writes or assigns.
type statement interface {
	exec(r *run, s *scope) signal
}

// signal says how a statement ended.
type signal uint8

const (
	onward signal = iota
	breakLoop
	continueLoop
)

type (
	constant struct{ value Value }
	variable struct{ name string }
	// sequence is a list or a tuple that is written out.
	sequence struct {
		items []expression
		kind  listKind
	}
	mapping   struct{ keys, values []expression }
	attribute struct {
		of   expression
		name string
	}
	subscript struct{ of, index expression }
	slice     struct{ start, stop, step expression } // nil: left out
	call      struct {
		of   expression
		args arguments
	}
	filter struct {
		of   expression // nil: the body of a block
		name string
		args arguments
	}
	test struct {
		of   expression
		name string
		args arguments
	}
	unary struct {
		op string
		of expression
	}
	binary struct {
		op          string
		left, right expression
	}
	// comparison is a chain: a < b <= c.
	comparison struct {
		first    expression
		ops      []string
		operands []expression
	}
	concatenation struct{ parts []expression }
	logical       struct {
		and         bool
		left, right expression
	}
	conditional struct{ test, then, otherwise expression } // otherwise may be nil
)

// arguments are those of a call.
type arguments struct {
	positional []expression
	names      []string
	named      []expression
	star       expression // *args, nil for none
	starStar   expression // **kwargs
}

type (
	textOutput  struct{ text string }
	valueOutput struct{ value expression }
	block       []statement
	branch      struct {
		tests  []expression
		bodies []block // one more than tests: the last is else, may be empty
	}
	loop struct {
		target    target
		over      expression
		test      expression // nil for none
		body, els block
		recursive bool
	}
	assignment struct {
		target target
		value  expression
	}
	// capture is {% set x %}...{% endset %}.
	capture struct {
		target target
		filter *filter // nil for none
		body   block
	}
	macro struct {
		name           string
		parameters     []string
		defaults       []expression // of the last parameters
		body           block
		caller         bool // the body uses caller, kwargs, varargs
		kwargs, varags bool
	}
	callBlock struct {
		of   *call
		body *macro
	}
	filterBlock struct {
		filter *filter
		body   block
	}
	with struct {
		targets []target
		values  []expression
		body    block
	}
	generation struct{ body block }
	jump       struct{ to signal }
)

// target is what an assignment assigns to: a name, an attribute of a
// namespace, or several of them.
type target struct {
	name      string
	attribute string // of the namespace name, empty for none
	several   []target
}
