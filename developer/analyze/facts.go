package analyze

// facts is what is known about one file. It is immutable once made, and shared.
type facts struct {
	lines   int
	funcs   []symbol
	types   []symbol
	imports []imported
	calls   []call
	refs    []reference
	// broken says that the parser met what it did not understand.
	broken bool
}

// audience says which generation of goose shows something.
type audience uint8

const (
	classicOnly audience = 1 << iota
	currentOnly
	everyone = classicOnly | currentOnly
)

func (a audience) has(b audience) bool { return a&b != 0 }

// A symbol is a function or a type.
type symbol struct {
	name string
	line int
	to   audience
	// owner is the type that a function belongs to; params and result are as
	// written, params with its parentheses.
	owner, params, result string
	// base is what a type extends, fields are its own.
	base   string
	fields []string
}

// An imported is an import: the whole statement, and what it imports.
type imported struct{ text, module string }

// A call is the use of a name in the body of a function.
type call struct {
	callee string
	line   int
	to     audience
	// caller is the index of the function in funcs, or -1 for the file's top level.
	caller int
}

// A reference is the use of a type.
type reference struct {
	kind referenceKind
	name string
	line int
	// owner is set for a method: the type that it belongs to.
	owner string
}

type referenceKind uint8

// The kinds, in the order in which they are shown.
const (
	methodOf referenceKind = iota
	instanceOf
	fieldType
	variableType
	parameterType
	referenceKinds
)

// weight is how many symbols the facts hold, for the bound of the cache.
func (f *facts) weight() int {
	n := 1 + len(f.funcs) + len(f.types) + len(f.imports) + len(f.calls) + len(f.refs)
	for _, t := range f.types {
		n += len(t.fields)
	}
	return n
}

func (f *facts) count(symbols []symbol, to audience) (n int) {
	for i := range symbols {
		if symbols[i].to.has(to) {
			n++
		}
	}
	return n
}

// callerName is the name of the function that a call is in.
func (f *facts) callerName(c call) string {
	if c.caller < 0 {
		return module
	}
	return f.funcs[c.caller].name
}

// module stands for the code of a file that is in no function.
const module = "<module>"

// timesCalled counts the uses of each name.
func (f *facts) timesCalled(to audience) map[string]int {
	times := map[string]int{}
	for _, c := range f.calls {
		if c.to.has(to) {
			times[c.callee]++
		}
	}
	return times
}
