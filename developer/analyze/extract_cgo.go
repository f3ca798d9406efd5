//go:build cgo

package analyze

import (
	"cmp"
	"slices"
	"strings"
)

// role is what a capture of a query is about; queries/README explains the names.
type role uint8

const (
	roleImport role = iota // these hold others inside
	roleType
	roleFunc
	roleName // these say something about what holds them
	roleMethod
	roleOwner
	roleParams
	roleParam
	roleResult
	roleBase
	roleImpl
	roleTrait
	roleField
	roleModule
	roleConst // these stand for themselves
	roleAssigned
	roleCall
	roleInstance
	roleFieldType
	roleVariableType
	roleParameterType
	roleNone // for a predicate only
)

func (r role) holds() bool     { return r <= roleFunc }
func (r role) describes() bool { return roleName <= r && r <= roleModule }

type captureKind struct {
	role role
	to   audience
}

// A capture is a piece of source that a query found.
type capture struct {
	captureKind
	start, end uint32
}

// captureKindOf reads a capture's name: a role, and .classic or .current when only
// one generation of goose shows it.
func captureKindOf(name string) (captureKind, bool) {
	if strings.HasPrefix(name, "_") {
		return captureKind{role: roleNone}, true
	}
	name, suffix, _ := strings.Cut(name, ".")
	to, ok := map[string]audience{"": everyone, "classic": classicOnly, "current": currentOnly}[suffix]
	if !ok {
		return captureKind{}, false
	}
	r, ok := map[string]role{
		"import": roleImport, "type": roleType, "func": roleFunc, "name": roleName, "method": roleMethod, "owner": roleOwner, "params": roleParams, "param": roleParam,
		"result": roleResult, "base": roleBase, "impl": roleImpl, "trait": roleTrait, "field": roleField, "module": roleModule,
		"const": roleConst, "assigned": roleAssigned, "call": roleCall, "instance": roleInstance, "fieldtype": roleFieldType,
		"vartype": roleVariableType, "paramtype": roleParameterType,
	}[name]
	return captureKind{r, to}, ok
}

// A holder is an import, a type or a function, while the sweep is inside it.
type holder struct {
	capture
	symbol
	around *holder // what it is inside of, or nil
	param  []string
	module string
	named  bool
	method bool // shown with its type in the classic answers
	index  int  // of a function in facts.funcs
}

// extraction sweeps over the captures from the start of the file to its end; the
// stack holds what the current place is inside of.
type extraction struct {
	src   []byte
	lines lineIndex
	names map[string]string
	stack []*holder
	all   []*holder
	calls []pendingCall
	refs  []reference
}

// A pendingCall waits until the functions have their places in the list.
type pendingCall struct {
	call
	in *holder
}

func extract(src []byte, captures []capture) *facts {
	x := &extraction{src: src, lines: indexLines(src), names: map[string]string{}}
	for _, c := range inOrder(captures) {
		for len(x.stack) > 0 && x.stack[len(x.stack)-1].end <= c.start {
			x.stack = x.stack[:len(x.stack)-1]
		}
		switch {
		case c.role.holds():
			x.enter(c)
		case c.role.describes():
			if h := x.described(c.role); h != nil {
				x.describe(h, c)
			}
		default:
			x.leaf(c)
		}
	}
	return x.facts()
}

// inOrder sorts from outside to inside, and makes one of what two patterns found
// at one place.
func inOrder(captures []capture) []capture {
	slices.SortFunc(captures, func(a, b capture) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.role, b.role))
	})
	once := captures[:0]
	for _, c := range captures {
		if n := len(once); n > 0 && once[n-1].start == c.start && once[n-1].end == c.end && once[n-1].role == c.role {
			once[n-1].to |= c.to
			continue
		}
		once = append(once, c)
	}
	return once
}

func (x *extraction) enter(c capture) {
	h := &holder{capture: c, symbol: symbol{to: c.to}}
	if n := len(x.stack); n > 0 {
		h.around = x.stack[n-1]
	}
	x.stack = append(x.stack, h)
	x.all = append(x.all, h)
}

// described is the innermost holder that a description can be about.
func (x *extraction) described(r role) *holder {
	for i := len(x.stack) - 1; i >= 0; i-- {
		h := x.stack[i]
		switch r {
		case roleModule:
			if h.role == roleImport {
				return h
			}
		case roleParams, roleParam, roleResult, roleOwner, roleMethod:
			if h.role == roleFunc {
				return h
			}
		case roleName:
			if h.named || h.role == roleImport {
				return nil
			}
			return h
		default:
			if h.role == roleType {
				return h
			}
		}
	}
	return nil
}

func (x *extraction) describe(h *holder, c capture) {
	text := string(x.src[c.start:c.end])
	switch c.role {
	case roleName:
		h.name, h.line, h.named = x.intern(text), x.lines.of(c.start), true
	case roleMethod:
		h.method = true
	case roleOwner:
		h.owner = x.intern(text)
	case roleParams:
		h.params = cmp.Or(h.params, oneLine(text))
	case roleParam:
		h.param = append(h.param, oneLine(text))
	case roleResult:
		h.result = cmp.Or(h.result, oneLine(strings.TrimLeft(text, ": \t")))
	case roleBase:
		if inner, ok := strings.CutPrefix(text, "("); ok {
			text = strings.TrimSuffix(inner, ")")
		}
		h.base = strings.TrimPrefix(h.base+", "+oneLine(text), ", ")
	case roleImpl:
		h.base = "impl"
	case roleTrait:
		h.base = "impl " + oneLine(text)
	case roleField:
		h.fields = append(h.fields, x.intern(text))
	case roleModule:
		h.module = oneLine(strings.Trim(text, "\"'`<>"))
	}
}

func (x *extraction) leaf(c capture) {
	name, line := x.intern(string(x.src[c.start:c.end])), x.lines.of(c.start)
	switch c.role {
	case roleConst:
		name = strings.TrimPrefix(name, ":") // a symbol of Ruby
		x.all = append(x.all, &holder{capture: capture{captureKind: captureKind{role: roleFunc}}, symbol: symbol{name: name, line: line, to: c.to}, named: true})
	case roleAssigned:
		x.all = append(x.all, &holder{capture: capture{captureKind: captureKind{role: roleType}}, symbol: symbol{name: name, line: line, to: c.to}, named: true})
	case roleCall:
		x.calls = append(x.calls, pendingCall{call{callee: name, line: line, to: c.to}, x.function()})
	default:
		kind := instanceOf + referenceKind(c.role-roleInstance)
		x.refs = append(x.refs, reference{kind: kind, name: name, line: line})
	}
}

// function is the innermost named function around the current place.
func (x *extraction) function() *holder {
	for i := len(x.stack) - 1; i >= 0; i-- {
		if h := x.stack[i]; h.role == roleFunc && h.named {
			return h
		}
	}
	return nil
}

func (x *extraction) facts() *facts {
	f := &facts{lines: x.lines.count(), refs: x.refs}
	slices.SortStableFunc(x.all, func(a, b *holder) int { return cmp.Compare(a.line, b.line) })
	for _, h := range x.all {
		switch {
		case h.role == roleImport:
			f.imports = append(f.imports, imported{string(x.src[h.start:h.end]), h.module})
		case !h.named:
		case h.role == roleType:
			f.types = append(f.types, h.symbol)
		default:
			h.index = len(f.funcs)
			s := h.function()
			f.funcs = append(f.funcs, s)
			if h.method && s.owner != "" {
				f.refs = append(f.refs, reference{kind: methodOf, name: s.name, line: s.line, owner: s.owner})
			}
		}
	}
	for _, c := range x.calls {
		c.caller = -1
		if c.in != nil {
			c.caller = c.in.index
		}
		f.calls = append(f.calls, c.call)
	}
	return f
}

// function completes the symbol of a function: what its parameters are, and which
// type it belongs to when it is not inside another function.
func (h *holder) function() symbol {
	s := h.symbol
	if len(h.param) > 0 {
		s.params = "(" + strings.Join(h.param, ", ") + ")"
	}
	for around := h.around; around != nil && s.owner == ""; around = around.around {
		if around.named && around.role == roleFunc {
			break
		}
		if around.named && around.role == roleType {
			s.owner = around.name
		}
	}
	return s
}

// intern makes one string of all that are equal: names are used often, and the
// source is not kept.
func (x *extraction) intern(s string) string {
	if known, ok := x.names[s]; ok {
		return known
	}
	x.names[s] = s
	return s
}
