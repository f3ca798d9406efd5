package analyze

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parseFile parses a file's content as its name says.
func parseFile(t testing.TB, name string, src []byte) *facts {
	t.Helper()
	for _, l := range languages() {
		if l.name != tag(name) {
			continue
		}
		p, err := l.newParser()
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		f, err := p.parse(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	return nil
}

// Whatever is found, its name is written in the line that it is said to be in.
func TestLinesAreTrue(t *testing.T) {
	paths, err := filepath.Glob("testdata/shop/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f := parseFile(t, path, src)
			if f == nil {
				t.Skip("no parser in this build")
			}
			if f.broken {
				t.Error("the grammar does not understand the file")
			}
			if len(f.funcs) == 0 || len(f.types) == 0 || len(f.calls) == 0 || len(f.imports) == 0 {
				t.Errorf("%d functions, %d types, %d calls, %d imports", len(f.funcs), len(f.types), len(f.calls), len(f.imports))
			}
			checkLines(t, f, string(src))
		})
	}
}

func checkLines(t testing.TB, f *facts, src string) {
	t.Helper()
	lines := strings.Split(src, "\n")
	check := func(what, name string, line int) {
		if line < 1 || line > len(lines) || name == "" {
			t.Fatalf("%s %q is in line %d of %d", what, name, line, len(lines))
		}
		first, _, _ := strings.Cut(name, "\n")
		if !strings.Contains(lines[line-1], first) {
			t.Errorf("%s %q is not in line %d: %s", what, name, line, lines[line-1])
		}
	}
	for _, s := range f.funcs {
		check("function", s.name, s.line)
	}
	for _, s := range f.types {
		check("type", s.name, s.line)
	}
	for _, c := range f.calls {
		check("call", c.callee, c.line)
		if c.caller >= len(f.funcs) {
			t.Errorf("the call of %s is in function %d of %d", c.callee, c.caller, len(f.funcs))
		}
	}
	for _, r := range f.refs {
		check("reference", r.name, r.line)
	}
}

// Every grammar that the table names is there, and its queries compile.
func TestGrammars(t *testing.T) {
	for _, l := range languages() {
		p, err := l.newParser()
		if err != nil {
			t.Errorf("%s: %v", l.name, err)
			continue
		}
		p.close()
	}
}

func TestTags(t *testing.T) {
	for name, want := range map[string]string{
		"a.go": "go", "A.PY": "python", "x.h": "cpp", "Dockerfile": "dockerfile", "a.tsx": "tsx", "a.mts": "typescript", "a.jsx": "javascript",
		"a.vbs": "vbscript", "a.kts": "kotlin", "a": "", "a.exe": "", "a.go.bak": "",
	} {
		if got := tag(name); got != want {
			t.Errorf("%s is tagged %q, want %q", name, got, want)
		}
	}
}

func TestCache(t *testing.T) {
	key := func(i int) cacheKey { return cacheKey{"go", sha256.Sum256(fmt.Append(nil, i))} }
	c := newCache(10)
	for i := range 5 {
		c.put(key(i), &facts{funcs: make([]symbol, 1)}) // two symbols each
	}
	if c.get(key(0)) == nil {
		t.Fatal("what fits was forgotten")
	}
	c.put(key(5), &facts{funcs: make([]symbol, 2)})
	if c.get(key(1)) != nil || c.get(key(2)) != nil || c.get(key(0)) == nil || c.get(key(5)) == nil {
		t.Error("not the least recently used ones were forgotten")
	}
	if c.weight > 10 || c.order.Len() != len(c.byKey) {
		t.Errorf("weight %d, %d in order, %d by key", c.weight, c.order.Len(), len(c.byKey))
	}
	c.put(key(6), &facts{funcs: make([]symbol, 11)})
	if c.get(key(6)) != nil || c.get(key(0)) == nil {
		t.Error("one that is larger than the cache took its place")
	}
	if c.get(cacheKey{"c", key(0).content}) != nil {
		t.Error("the facts of another language")
	}
}

// stuck is a parser that does not look at the clock.
type stuck struct {
	release chan struct{}
	closed  chan struct{}
}

func (s stuck) parse(context.Context, []byte) (*facts, error) {
	<-s.release
	return &facts{}, nil
}

func (s stuck) close() { close(s.closed) }

func TestRunaways(t *testing.T) {
	p := stuck{make(chan struct{}), make(chan struct{})}
	a := New(Options{FileTime: time.Millisecond})
	w := worker{a: a, parsers: map[string]fileParser{"stuck": p}}
	l := &language{name: "stuck", newParser: func() (fileParser, error) { return p, nil }}
	if _, err := w.facts(t.Context(), l, []byte("a")); err == nil || !strings.Contains(err.Error(), "does not stop") {
		t.Errorf("a parser that does not stop: %v", err)
	}
	if a.runaways.count() != 1 || len(w.parsers) != 0 {
		t.Errorf("%d runaways, %d parsers kept", a.runaways.count(), len(w.parsers))
	}
	a.runaways.n.Add(1)
	if _, err := w.facts(t.Context(), l, []byte("b")); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("with all runaways at work: %v", err)
	}
	a.runaways.n.Add(-1)
	close(p.release)
	<-p.closed
	a.Wait()
	if a.runaways.count() != 0 {
		t.Errorf("%d runaways after the end", a.runaways.count())
	}
}

func FuzzParse(f *testing.F) {
	all := languages()
	paths, err := filepath.Glob("testdata/shop/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for i, l := range all {
			if l.name == tag(path) {
				f.Add(uint8(i), string(src))
			}
		}
	}
	f.Fuzz(func(t *testing.T, language uint8, src string) {
		if len(src) > 5000 {
			t.Skip()
		}
		l := all[int(language)%len(all)]
		p, err := l.newParser()
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the fuzzer gives up after ten
		defer cancel()
		facts, err := p.parse(ctx, []byte(src))
		if err != nil {
			return // it took too long
		}
		checkLines(t, facts, src)
		one := &file{path: "/a", name: "a", tag: l.name, family: l.name, facts: facts}
		classicFile(one)
		if _, err := currentFile(one); err != nil {
			t.Fatal(err)
		}
		if _, err := currentFocus(ctx, Request{Focus: "main", FollowDepth: 3}, []*file{one}); err != nil {
			t.Fatal(err)
		}
	})
}
