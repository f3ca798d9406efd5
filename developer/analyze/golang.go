package analyze

import (
	"bytes"
	"context"
	"go/ast"
	goparser "go/parser"
	"go/token"
)

// goParser reads Go. The standard library's parser limits how deep it goes, and
// needs milliseconds for the largest file: there is nothing to cancel.
type goParser struct{}

func (goParser) close() {}

func (goParser) parse(_ context.Context, src []byte) (*facts, error) {
	f := &facts{lines: indexLines(src).count()}
	if readGo(f, src, 0) {
		return f, nil
	}
	// The parser loses what comes after an error. Declarations begin at the margin,
	// and each is read alone.
	f = &facts{lines: f.lines, broken: true}
	line := 0
	for _, declaration := range goDeclarations(src) {
		readGo(f, append([]byte("package p;"), declaration...), line)
		line += bytes.Count(declaration, []byte("\n"))
	}
	return f, nil
}

// goDeclarations cuts a file before every line that begins a declaration.
func goDeclarations(src []byte) (parts [][]byte) {
	start, at := 0, 0
	for line := range bytes.Lines(src) {
		for _, keyword := range []string{"func ", "type ", "const ", "var ", "import "} {
			if bytes.HasPrefix(line, []byte(keyword)) && at > start {
				parts = append(parts, src[start:at])
				start = at
			}
		}
		at += len(line)
	}
	parts = append(parts, src[start:])
	if bytes.HasPrefix(parts[0], []byte("package ")) {
		parts[0] = append([]byte("//"), parts[0]...) // it gets a package clause like the others
	}
	return parts
}

// readGo adds what a source declares, which begins after so many lines of its file.
// It reports whether all of it was understood.
func readGo(f *facts, src []byte, line int) bool {
	fset := token.NewFileSet()
	file, err := goparser.ParseFile(fset, "", src, goparser.SkipObjectResolution)
	if file == nil {
		return false
	}
	g := &goFacts{f: f, file: fset.File(file.FileStart), src: src, before: line}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			g.function(d)
		case *ast.GenDecl:
			g.declaration(d)
		}
	}
	return err == nil
}

// goFacts collects what a source declares and uses.
type goFacts struct {
	f      *facts
	file   *token.File
	src    []byte
	before int // lines of the file that come before the source
}

func (g *goFacts) line(p token.Pos) int { return g.before + g.file.Line(p) }

// text is the source of a node, which a broken file may have cut short.
func (g *goFacts) text(from, to token.Pos) string {
	a, b := g.file.Offset(from), g.file.Offset(to)
	return string(g.src[min(a, len(g.src)):max(min(a, len(g.src)), min(b, len(g.src)))])
}

// blank is a name that nobody can use; the parser puts it where one is missing.
const blank = "_"

func (g *goFacts) function(d *ast.FuncDecl) {
	if d.Name.Name == blank {
		return
	}
	s := symbol{name: d.Name.Name, line: g.line(d.Name.Pos()), to: everyone}
	params := d.Type.Params
	if d.Recv != nil && len(d.Recv.List) > 0 {
		params = d.Recv // goose shows a method's receiver as its parameters
		s.owner = typeName(d.Recv.List[0].Type)
		g.f.refs = append(g.f.refs, reference{kind: methodOf, name: s.name, line: s.line, owner: s.owner})
	}
	s.params = oneLine(g.text(params.Pos(), params.End()))
	g.f.funcs = append(g.f.funcs, s)
	g.uses(d, len(g.f.funcs)-1)
}

func (g *goFacts) declaration(d *ast.GenDecl) {
	if d.Tok == token.IMPORT {
		text := g.text(d.Pos(), d.End())
		g.f.imports = append(g.f.imports, imported{text: text, module: moduleOf(text)})
		return
	}
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			g.typeSpec(spec)
		case *ast.ValueSpec:
			if d.Tok == token.CONST {
				for _, name := range spec.Names {
					if name.Name == blank {
						continue
					}
					g.f.funcs = append(g.f.funcs, symbol{name: name.Name, line: g.line(name.Pos()), to: classicOnly})
				}
			}
		}
	}
	g.uses(d, -1)
}

func (g *goFacts) typeSpec(spec *ast.TypeSpec) {
	if spec.Name.Name == blank {
		return
	}
	s := symbol{name: spec.Name.Name, line: g.line(spec.Name.Pos()), to: everyone}
	if st, ok := spec.Type.(*ast.StructType); ok {
		for _, field := range st.Fields.List {
			for _, name := range field.Names {
				s.fields = append(s.fields, name.Name)
			}
			if len(field.Names) == 0 {
				s.fields = append(s.fields, typeName(field.Type))
			}
		}
	}
	g.f.types = append(g.f.types, s)
}

// uses finds the calls in a declaration and the names that its expressions use.
func (g *goFacts) uses(root ast.Node, caller int) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id := lastName(n.Fun); id != nil {
				g.use(id, caller, everyone)
			}
			g.names(n.Args, caller)
		case *ast.BinaryExpr:
			g.names([]ast.Expr{n.X, n.Y}, caller)
		case *ast.UnaryExpr:
			g.names([]ast.Expr{n.X}, caller)
		case *ast.ReturnStmt:
			g.names(n.Results, caller)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				g.names(n.Rhs, caller)
			}
		case *ast.CompositeLit:
			g.reference(instanceOf, n.Type)
		case *ast.StructType:
			for _, field := range n.Fields.List {
				g.reference(fieldType, field.Type)
			}
		}
		return true
	})
}

// names counts the expressions that are plain identifiers: classic goose took
// them for uses, so that constants have callers too.
func (g *goFacts) names(exprs []ast.Expr, caller int) {
	for _, e := range exprs {
		if id, ok := e.(*ast.Ident); ok {
			g.use(id, caller, classicOnly)
		}
	}
}

func (g *goFacts) use(id *ast.Ident, caller int, to audience) {
	if id.Name == blank {
		return
	}
	g.f.calls = append(g.f.calls, call{callee: id.Name, line: g.line(id.Pos()), to: to, caller: caller})
}

func (g *goFacts) reference(kind referenceKind, t ast.Expr) {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if sel, ok := t.(*ast.SelectorExpr); ok {
		t = sel.Sel
	}
	if id, ok := t.(*ast.Ident); ok && id.Name != blank {
		g.f.refs = append(g.f.refs, reference{kind: kind, name: id.Name, line: g.line(id.Pos())})
	}
}

// lastName is what a call calls: f in f(), x.f() and f[T]().
func lastName(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			return x.Sel
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// typeName is the name in a type: T in *T, p.T and T[K].
func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id := lastName(e); id != nil {
		return id.Name
	}
	return blank
}
