package ignore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// holds checks a space-separated list of paths against rules; those with "!" are
// not hidden, those that end with "/" are directories.
func holds(t *testing.T, m *Matcher, list string) {
	t.Helper()
	for want := range strings.FieldsSeq(list) {
		path, visible := strings.CutPrefix(want, "!")
		rel, dir := strings.CutSuffix(path, "/")
		if d := m.Explain(rel, dir); d.Ignored == visible {
			t.Errorf("%q is hidden: %v (%v)", path, d.Ignored, d.Rule)
		}
	}
}

// What go-gitignore by itself gets wrong.
func TestWhatTheLibraryMisreads(t *testing.T) {
	for _, tt := range []struct{ rules, list string }{
		{"foo?", "foo1 !foo !foo12"},
		{"f?o", "fxo !fo"},
		{"[!a]", "b !a !bb"},
		{"a+b", "a+b !aab"},
		{"(x)", "(x) !x"},
		{"foo(", "foo( !foo"},
		{"$HOME", "$HOME"},
		{"^x", "^x !x"},
		{"x{1}", "x{1} x1"},
		{"a|b", "a|b !a !b"},
		{"a/b", "a/b !x/a/b a/b/c"},
		{"a/*", "a/b !x/a/b a/b/c"},
		{"a/**", "!a/ a/b a/b/c"},
		{"/a", "a !b/a"},
		{"a/**/b", "a/b a/x/b a/x/y/b !ab !x/a/b"},
		{"**/a/b", "a/b x/a/b x/y/a/b"},
		{"secrets/", "secrets/ !secrets secrets/x x/secrets/y"},
		{"secrets/\n!secrets/ok", "secrets/ok"},
		{"secrets/*\n!secrets/ok", "!secrets/ok secrets/no"},
		{"\ufeff.env", ".env"},
		{".env\r\n*.key\r\n", ".env a.key"},
		{"#$~", "!x"},
		{"a#$~b", "a#$~b !ab"},
		{`\#x`, "#x"},
		{`\!x`, "!x"},
		{`a\*`, "a* !ab"},
		{`a\?`, "a? !ab"},
		{"a.c", "a.c !abc"},
		{"*.tar.gz", "x.tar.gz !xtar.gz"},
		{"[[:digit:]]x", "1x !ax"},
		{"[a-c]x", "bx !dx"},
		{"[]]x", "]x"},
		{"[a-", "[a- !a"},
		{"*", "a .b c/d"},
		{"*a*b*", "xaxbx !ba"},
		{"a**/b", "ab a/b ax/b !b"},
	} {
		m := Compile([]Source{{Text: tt.rules}}, Options{})
		t.Run(tt.rules, func(t *testing.T) { holds(t, m, tt.list) })
	}
}

// The list above compileLine.
func TestWhereMoreIsHiddenThanByGit(t *testing.T) {
	for _, tt := range []struct {
		rules, list string
		problems    int
	}{
		{"*.{pem,key}", "a.pem a.key a.{pem,key} !a.txt !a.pe", 0},
		{"{a,b{c,d}}/x", "a/x bc/x bd/x !b/x", 0},
		{`\{a,b}`, "{a,b} !a", 0},
		{"[{]a,b}", "{a,b} !a", 0},
		{"x{}y", "xy x{}y", 0},
		{"{a", "{a !a", 0},
		{"*\n!*.{pem,key}", "a.pem", 1},
		{"?", "é 日 !ab", 0},
		{"[!a]x", "éx bx !ax", 0},
		{"[é]", "é", 0},
		{"*\n!?", "é !e", 0},
		{" .env", ".env", 1},
		{".env\t", ".env", 1},
		{".env  ", ".env", 0},
		{`.env\ `, "!.env", 0},
		{"./.env", ".env !sub/.env", 1},
		{"sec[ret", "sec[ret !secret", 1},
		{`sec\`, `sec\ !sec`, 1},
		{"*\n![", "[", 1},
		{strings.Repeat("{a,b,c,d}", 6), "a !b", 1},
		{"p" + strings.Repeat("{a,b,c,d}", 6), "paaaaaa pzz !q", 1},
		{" #x", "#x", 1},
		{" !x", "!x", 1},
	} {
		m := Compile([]Source{{File: "rules", Text: tt.rules}}, Options{})
		t.Run(tt.rules, func(t *testing.T) {
			if strings.HasPrefix(tt.rules, "{a,b,c,d}") {
				tt.list = "a b" // there is nothing before the first brace
			}
			holds(t, m, tt.list)
			if got := m.Problems(); len(got) != tt.problems {
				t.Errorf("problems: %v", got)
			}
		})
	}
}

func TestFolding(t *testing.T) {
	m := Compile([]Source{{Text: ".Env\n[A-C]x\nÉTÉ\n\\Key\n*.PEM\nsub/File\n!Keep.pem\n"}}, Options{FoldCase: true})
	holds(t, m, ".env .ENV BX bx été e\u0301te\u0301 ÉTÉ \u212aey KEY x.pem .e\u200cnv SUB/file SUB/FILE/x !KEEP.PEM !x/sub/file")
	exact := Compile([]Source{{Text: ".Env\nK\n"}}, Options{})
	holds(t, exact, ".Env K !.env !k !\u212a")
}

func TestWindowsNames(t *testing.T) {
	m := Compile([]Source{{Text: ".env\n/a/b\n"}}, Options{FoldCase: true, WindowsNames: true})
	holds(t, m, ".env .env. .env:$DATA .ENV::$DATA A/B./c a./b:x !.envx")
	if m.Ignored(".env ", false) != true {
		t.Error("a space at the end")
	}
}

func TestOddPaths(t *testing.T) {
	m := Compile([]Source{{Text: "x\n*.key\n[ab]z"}}, Options{})
	holds(t, m, "./x .//x a//x x/ ../x .. ../../y !. !./ a/../x !y")
	for _, rel := range []string{"a\x00b", "new\nline/x", "new\nline.key", "\xff\xfe.key", "\xff/az"} {
		if !m.Ignored(rel, false) {
			t.Errorf("%q is not hidden", rel)
		}
	}
	if (&Matcher{}).Ignored("x", false) || (&Matcher{}).Outside("/x", false).Ignored || !(&Matcher{}).BasenameOnly() {
		t.Error("the zero Matcher hides something")
	}
}

// Templates are open where there are no rules but the built-in ones, and nothing else is.
func TestDefaults(t *testing.T) {
	m := Compile([]Source{{Text: Defaults, Everywhere: true}}, Options{})
	for rel, want := range map[string]bool{
		".env": true, "sub/.env.local": true, ".env.production": true, "secrets.yml": true, ".env.example.local": true, ".env/x.example": true, ".env.examples": true,
		".env.example": false, "sub/.env.sample": false, ".env.local.template": false, ".env.dist": false, "secrets.yml.example": false,
	} {
		if m.Ignored(rel, false) != want {
			t.Errorf("%s is closed: %v", rel, !want)
		}
	}
	if by := m.Explain("sub/.env.local", false).Rule.By("sub/.env.local"); by != "gander's default rules; `!.env.local` in .gooseignore opens it, and that file takes the place of these rules" {
		t.Error(by)
	}
}

func TestBasenameOnly(t *testing.T) {
	for _, tt := range []struct {
		sources []Source
		want    bool
	}{
		{nil, true},
		{[]Source{{Text: Defaults}}, true},
		{[]Source{{Text: "a\nb/\n!c\n*.d\n**/e\n{f,g}\n"}}, true},
		{[]Source{{Text: "a\n/b\n"}}, false},
		{[]Source{{Text: "a/b\n"}}, false},
		{[]Source{{Text: "**/a/b\n"}}, false},
		{[]Source{{Text: "a\n"}, {Dir: "sub", Text: "b\n"}}, false},
		{[]Source{{Dir: "sub", Text: "b\n"}}, false},
		{[]Source{{Text: "a\n"}, {Dir: "sub", Text: "# nothing\n"}}, true},
	} {
		if got := Compile(tt.sources, Options{}).BasenameOnly(); got != tt.want {
			t.Errorf("%+v: %v", tt.sources, got)
		}
	}
}

// Many rules and paths: what is remembered is bounded, and right.
func TestVerdictsAreRemembered(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		text.WriteString("/secret" + strings.Repeat("x", i%7) + "/" + string(rune('a'+i%26)) + strings.Repeat("y", i%31) + "\n")
	}
	m := Compile([]Source{{Text: text.String() + "*.k[e]y\n"}}, Options{})
	for i := range 70_000 {
		dir := "d" + strings.Repeat("e", i%50) + string(rune('a'+i%26)) + strings.Repeat("f", i%97)
		if i%2 == 0 && m.Ignored(dir+"/file", false) || i%2 == 1 && !m.Ignored(dir+"/x.key", false) {
			t.Fatal("a decision is wrong")
		}
	}
	n := 0
	for i := range m.files.shards {
		n += len(m.files.shards[i].m)
	}
	if n == 0 || n > shards*perShard {
		t.Errorf("%d verdicts are kept", n)
	}
	holds(t, m, "secretx/b secret/a !secretx/nothing")
}

// No rule is dropped because the library cannot take it.
func TestLongRulesHold(t *testing.T) {
	for pattern, name := range map[string]string{
		strings.Repeat("?", maxLine-1):             strings.Repeat("a", maxLine-1),
		strings.Repeat("[!b]", maxLine/4-1):        strings.Repeat("a", maxLine/4-1),
		strings.Repeat("*a", maxLine/2-1):          strings.Repeat("a", maxLine/2-1),
		strings.Repeat("a/**/", maxLine/5-1) + "a": strings.Repeat("a/", maxLine/5-1) + "a",
		strings.Repeat("[a-z0-9_][^x]", 300):       strings.Repeat("aé", 300),
	} {
		m := Compile([]Source{{Text: pattern + "\n"}}, Options{})
		if !m.Ignored(name, false) {
			t.Errorf("%.20s… does not match %.20s…", pattern, name)
		}
		if m.Ignored("b", false) {
			t.Errorf("%.20s… hides everything", pattern)
		}
	}
}

func TestDetectOptions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Name"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(filepath.Join(dir, "nAME"))
	if got := DetectOptions(dir); got.FoldCase != (err == nil) {
		t.Errorf("%+v, but a name in another case: %v", got, err)
	}
	// A file system without case looks like this to whoever asks.
	if err := os.Link(filepath.Join(dir, "Name"), filepath.Join(dir, "nAME")); err == nil && !DetectOptions(dir).FoldCase {
		t.Error("names that differ in case lead to the same file, and that was not noticed")
	}
}

// A directory leads to what is hidden in it by its path, not by its name alone.
func TestLeads(t *testing.T) {
	m := Compile([]Source{
		{Text: "config/prod.key\napps/*/a/key\n**/deep/key\n/top\n*.pem\n!kept/a/b\nwhole/**\n"}, {Dir: "sub", Text: "in/key\n"},
	}, Options{})
	for rel, want := range map[string]bool{
		"config": true, "apps": true, "apps/web": true, "apps/web/a": true, "x/y/deep": true, "deep": true, "sub/in": true, "whole": true,
		"config/prod.key": false, "config/other": false, "apps/web/b": false, "x/y": false, "top": false, "kept": false, "kept/a": false, "in": false, "sub": false, "": false,
	} {
		if got := m.Leads(rel); got != want {
			t.Errorf("%q leads: %v", rel, got)
		}
	}
}
