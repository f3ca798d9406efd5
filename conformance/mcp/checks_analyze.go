package mcp

import (
	"fmt"
	"strings"
)

func analyzeChecks() []Check {
	analyze := []string{"analyze"}
	return []Check{
		{ID: "analyze.structure", Profile: Classic, Requirements: []int{70}, needs: analyze, run: checkStructure, Text: "a directory is shown as a tree of files with their lines, functions and classes, under a summary"},
		{ID: "analyze.semantic", Profile: Classic, Requirements: []int{70}, needs: analyze, run: checkSemantic, Text: "a file is shown with its types and functions on their true lines, and its imports"},
		{ID: "analyze.focus", Profile: Classic, Requirements: []int{70}, needs: analyze, run: checkFocus, Text: "a symbol is shown with its definition and the chains of calls to and from it"},
		{ID: "analyze.errors", Requirements: []int{45, 70}, needs: analyze, run: checkAnalyzeErrors, Text: "a missing path is refused; broken, binary and empty files are not fatal"},
		{ID: "analyze.large", Profile: Classic, Requirements: []int{34, 70}, needs: analyze, run: checkAnalyzeLarge, Text: "more than a thousand lines of result are announced, and shown with force"},
		{ID: "analyze.depth", Requirements: []int{70}, needs: analyze, run: checkAnalyzeDepth, Text: "max_depth limits the levels of directories that are looked at, 0 lifts the limit"},
		{ID: "analyze.languages", Requirements: []int{70}, needs: analyze, run: checkLanguages, Text: "functions are found in Python, Rust, JavaScript, TypeScript, Go, Java, Kotlin, Swift and Ruby"},
	}
}

const mainGo = `package main

import (
	"fmt"
	"os"
)

const Limit = 3

type Server struct {
	name string
	log  Logger
}

type Logger struct{}

func (s *Server) Run() {
	helper(1)
	_ = os.Args
}

func helper(n int) {
	fmt.` + `Println(n, Limit)
}

func main() {
	s := &Server{}
	s.Run()
	helper(1)
	helper(2)
	helper(3)
}
`

const utilPy = `import os


class Foo:
    def bar(self):
        return os.getpid()


def baz():
    return Foo().bar()
X = 1
`

// project writes the sources that the formats are documented with.
func (p *probe) project() {
	p.write("main.go", mainGo)
	p.write("pkg/util.py", utilPy)
}

func checkStructure(p *probe) {
	p.project()
	assistant, user := p.split("analyze of a directory", p.ok("analyze", args{"path": p.path()}), 0)
	p.equal("the analysis for the user", user, assistant)
	p.holds("the structure", assistant, "SUMMARY:\nShown: 2 files, 43L, ", "(max_depth=3)", "Languages: go (74%), python (25%)",
		"PATH [LOC, FUNCTIONS, CLASSES] <FLAGS>\n", "main.go [32L, ", " main:26\n", "pkg/\n  util.py [11L, ")
}

func checkSemantic(p *probe) {
	p.project()
	text := p.ok("analyze", args{"path": p.path("main.go")}).text("assistant")
	p.holds("the analysis of a file", text, "FILE: "+p.path("main.go")+" [32L, ", "\nC: ", "Server:10", "Logger:15", "\nF: ", "Run:17", "helper:22•4", "main:26", "\nI: ")
}

func checkFocus(p *probe) {
	p.project()
	text := p.ok("analyze", args{"path": p.path(), "focus": "helper"}).text("assistant")
	p.holds("the focused analysis", text, "FOCUSED ANALYSIS: helper", "DEFINITIONS:\nmain.go:22 - helper", "INCOMING CALL CHAINS (depth=2):",
		"main.go:28 (main -> Run) -> main.go:18 (Run -> helper)", "main.go:29 (main -> helper)", "OUTGOING CALL CHAINS (depth=2):",
		"main.go:23 (helper -> Println)", "STATISTICS:\n", "Files analyzed: 2", "Definitions found: 1", "Follow depth: 2")
	text = p.ok("analyze", args{"path": p.path(), "focus": "NoSuchSymbol"}).text("assistant")
	p.holds("the focused analysis of nothing", text, "Symbol 'NoSuchSymbol' not found in any analyzed files.")
}

func checkAnalyzeErrors(p *probe) {
	words := p.path("missing")
	if p.classic() {
		words = "Path '" + words + "' does not exist"
	}
	p.refused("analyze of a missing path", p.call("analyze", args{"path": p.path("missing")}), invalidParams, words)
	p.write("fine.go", "package x\n\nfunc Fine() {}\n")
	p.write("broken.go", "package x\n\nfunc {{{ broken(\n")
	p.write("binary.go", "\x00\x01\xff\xfe")
	p.write("empty.py", "")
	p.holds("the analysis beside broken files", p.ok("analyze", args{"path": p.path()}).text("assistant"), "fine.go")
	p.ok("analyze", args{"path": p.path("broken.go")})
}

func checkAnalyzeLarge(p *probe) {
	for i := range 1100 {
		p.write(fmt.Sprintf("f%04d.go", i), "package x\n")
	}
	a := p.ok("analyze", args{"path": p.path()})
	p.holds("the analysis of many files", a.text("assistant"), "LARGE OUTPUT WARNING", "force")
	if strings.Contains(a.words(), "f1099.go") {
		p.problem("the warning comes with the whole output")
	}
	a = p.ok("analyze", args{"path": p.path(), "force": true})
	p.holds("the analysis with force", a.text("assistant"), "f0000.go", "f1099.go")
}

func checkAnalyzeDepth(p *probe) {
	p.write("one/two/three/four/deep.go", "package x\n\nfunc Deep() {}\n")
	p.write("top.go", "package x\n\nfunc Top() {}\n")
	for depth, want := range map[int]bool{1: false, 2: false, 0: true} {
		text := p.ok("analyze", args{"path": p.path(), "max_depth": depth}).text("assistant")
		if got := strings.Contains(text, "deep.go"); got != want {
			p.problem("with max_depth %d a file five levels down is shown: %v, want %v", depth, got, want)
		}
	}
}

func checkLanguages(p *probe) {
	for name, source := range map[string]string{
		"a.py": "def wanted():\n    pass\n", "a.rs": "fn wanted() {}\n", "a.js": "function wanted() {}\n",
		"a.ts": "function wanted(x: number): number { return x }\n", "a.go": "package a\n\nfunc wanted() {}\n",
		"A.java": "class A {\n  void wanted() {}\n}\n", "a.kt": "fun wanted() {}\n", "a.swift": "func wanted() {}\n", "a.rb": "def wanted\nend\n",
	} {
		p.write(name, source)
		a := p.call("analyze", args{"path": p.path(name)})
		if a.failed() || !strings.Contains(a.text("assistant"), "wanted") {
			p.problem("no function is found in %s: %s", name, excerpt(a.text("assistant")+a.message))
		}
	}
}
