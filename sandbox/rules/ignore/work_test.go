package ignore

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

// A hundred lines that an expression takes half an hour to compare with one deep path.
func slowRules(mark string) string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "%s%s[bc%d]\n", mark, strings.Repeat("**/a/", 50), i)
	}
	return b.String()
}

func TestWorkIsBounded(t *testing.T) {
	deep := strings.Repeat("a/", 150) + "a" // no directory of it takes too much by itself
	many := func(format string) string {
		var b strings.Builder
		for i := range maxRules {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		rules []Source
		o     Options
	}{
		"at the root":      {rules: []Source{{File: "rules", Text: slowRules("")}}},
		"brought back":     {rules: []Source{{File: "rules", Text: "*\n!*\n" + slowRules("!")}}},
		"in a directory":   {rules: []Source{{Text: "*.pem\n"}, {File: "rules", Dir: "a/a", Text: slowRules("")}}},
		"in two":           {rules: []Source{{File: "rules", Text: slowRules("")}, {File: "rules", Dir: "a/a", Text: slowRules("")}}},
		"by their number":  {rules: []Source{{File: "rules", Text: many("*%dx")}, {File: "rules", Dir: "a", Text: many("y%d*")}, {File: "rules", Dir: "a/a", Text: many("*%dz")}}},
		"where no case is": {rules: []Source{{File: "rules", Text: slowRules("")}}, o: Options{FoldCase: true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Compile(c.rules, c.o)
			v := m.explain(deep, false)
			if !v.Ignored || v.work <= mostWork || v.Rule.Line != 0 || !strings.Contains(v.Rule.String(), "rules:0: everything that takes too long") {
				t.Errorf("after %d steps: %v by %v", v.work, v.Ignored, v.Rule)
			}
			// What one more line costs, at most.
			if most := mostWork + work(len(deep)+1)*200; v.work > most {
				t.Errorf("%d steps, want at most %d", v.work, most)
			}
			if m.Ignored("a/a/other", false) {
				t.Error("a path that costs little is hidden")
			}
			if got, want := m.In(path.Dir(deep)).Ignored(path.Base(deep), false), m.Ignored(deep, false); got != want {
				t.Errorf("in its directory %v, by itself %v", got, want)
			}
		})
	}
}

// What a path costs does not depend on what was asked before: else it would be hidden
// once, and once not.
func TestWorkIsTheSameAlways(t *testing.T) {
	rules := []Source{{Text: slowRules("")}, {Dir: "a", Text: "x*y/z*\nq?\n"}}
	deep := strings.TrimSuffix(strings.Repeat("a/", 25), "/") + "/d"
	cold := Compile(rules, Options{}).explain(deep, false)
	warm := Compile(rules, Options{})
	for at := path.Dir(deep); at != "."; at = path.Dir(at) {
		warm.explain(at, true)
		warm.In(at).Ignored("d", false)
	}
	if got := warm.explain(deep, false); got != cold || cold.work == 0 {
		t.Errorf("%+v when its directories were asked about before, %+v else", got, cold)
	}
}

// What rules become is bounded, too, and not only their text.
func TestExpressionsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"wildcards": strings.Repeat("a*"+strings.Repeat("x", 100)+"*b\n", 2200),
		"braces":    strings.Repeat("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"+strings.Repeat("x", 3000)+"\n", 20),
	} {
		if c := compileSource(Source{Text: text}, Options{}, dialect{}); !c.tooMany || c.size > maxRulesSize+maxLine*10*maxAlternatives {
			t.Errorf("%s: %d rules of %d", name, len(c.rules), c.size)
		}
	}
	plain := strings.Builder{}
	for i := range maxRules {
		fmt.Fprintf(&plain, "a/file/%012d\n", i)
	}
	if c := compileSource(Source{Text: plain.String()}, Options{}, dialect{}); c.tooMany || plain.Len() > maxSize {
		t.Errorf("%d plain rules of %d are too many", len(c.rules), c.size)
	}
	// Every slash is a way to what is hidden, and each way an expression.
	long := Compile([]Source{{Text: strings.Repeat(strings.Repeat("*/a/", 500)+"b\n", 10)}}, Options{})
	if ways, ok := long.root.ways(); ok || !long.Leads("x") {
		t.Errorf("%d ways of 10 lines", len(ways))
	}
	deep := Compile([]Source{{Text: strings.Repeat(strings.Repeat("**/a/", 20)+"[bc]/key\n", 150)}}, Options{})
	if _, ok := deep.root.ways(); !ok || !deep.Leads(strings.Repeat("a/", 2000)+"d") || deep.Leads("d") {
		t.Errorf("a way that takes too long to tell: %v", ok)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache[verdict]()
	for i := range 10_000 {
		c.put(fmt.Sprint(i)+strings.Repeat("/x", 2000), verdict{})
	}
	bytes := 0
	for i := range c.shards {
		for name := range c.shards[i].m {
			bytes += len(name)
		}
	}
	if bytes > shards*(perShard+10_000) || bytes < perShard {
		t.Errorf("paths of %d bytes are remembered", bytes)
	}
}

// The plain texts of a rule are asked for first; they may never keep an expression from
// what it matches.
func TestPlainTextsOfExpressions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(parts []string) string {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		return b.String()
	}
	globs := []string{"a", "b", "ab", "/", "*", "**/", "/**", "?", "[ab]", "[!a]", "é", `\*`, "A"}
	names := []string{"a", "b", "ab", "/", "é", "*", "A", "c"}
	asked, matched, refused := 0, 0, 0
	for range 2000 {
		d := dialect{fold: random.IntN(2) == 0}
		rules, _ := compileLine(Rule{Text: pick(globs)}, d)
		for _, r := range rules {
			if r.how != byLibrary {
				continue
			}
			for range 10 {
				s := subject{plain: strings.TrimLeft(pick(names), "/")} // as paths are
				if d.fold {
					s.plain = fold(s.plain)
				}
				asked++
				want, may := r.lib().matches(s.forLibrary()), r.mayMatch(s.plain)
				if want && !may {
					t.Fatalf("%q matches %q, and its texts %q say that it does not", r.Text, s.plain, r.runs)
				}
				if want {
					matched++
				}
				if !may {
					refused++
				}
			}
		}
	}
	if matched < asked/100 || refused < asked/10 {
		t.Errorf("of %d questions %d match, %d are refused", asked, matched, refused)
	}
}
