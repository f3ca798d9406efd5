package mcp

import (
	"fmt"
	"strings"
)

func currentChecks() []Check {
	return []Check{
		{ID: "current.shell", Profile: Current, Requirements: []int{36, 72}, needs: []string{"shell"}, run: checkCurrentShell, Text: "no output and exit codes are said in words"},
		{ID: "current.write", Profile: Current, Requirements: []int{72}, needs: []string{"write"}, run: checkCurrentWrite, Text: "write makes files with the directories above them, bytes as given"},
		{ID: "current.edit", Profile: Current, Requirements: []int{72}, needs: []string{"edit"}, run: checkCurrentEdit, Text: "edit replaces the one place, deletes with an empty after, and refuses none and several"},
		{ID: "current.tree", Profile: Current, Requirements: []int{72}, needs: []string{"tree"}, run: checkCurrentTree, Text: "tree shows directories before files, to a depth, without what git ignores"},
		{ID: "current.read-image", Profile: Current, Requirements: []int{72}, needs: []string{"read_image"}, run: checkCurrentImage, Text: "read_image returns an image in its own format, or a part of it"},
		{ID: "current.analyze", Profile: Current, Requirements: []int{72}, needs: []string{"analyze"}, run: checkCurrentAnalyze, Text: "analyze has the formats of goose 1.52"},
		{ID: "current.priority", Profile: Current, Requirements: []int{72}, needs: []string{"shell"}, run: checkCurrentPriority, Text: "results have priority 0 and no audience"},
	}
}

func checkCurrentShell(p *probe) {
	d := p.facts.dialect
	p.holds("the result of a command without output", p.ok("shell", args{"command": d.exit(0)}).text("assistant"), "(no output)")
	a := p.call("shell", args{"command": d.then(d.echo("out"), d.exit(3))})
	if !a.IsError {
		p.problem("a command that fails is no error: %s", excerpt(a.words()))
	}
	p.holds("the result of a command that fails", a.text("assistant"), "out", "\n\nCommand exited with code 3")
}

func checkCurrentWrite(p *probe) {
	a := p.ok("write", args{"path": p.path("deep", "f.txt"), "content": "a\r\nb"})
	p.holds("the answer to write", a.text("assistant"), "Created "+p.path("deep", "f.txt")+" (2 lines)")
	p.equal("the file", p.read("deep/f.txt"), "a\r\nb")
	a = p.ok("write", args{"path": p.path("deep", "f.txt"), "content": "c\n"})
	p.holds("the answer to a second write", a.text("assistant"), "Wrote "+p.path("deep", "f.txt"))
	p.equal("the file", p.read("deep/f.txt"), "c\n")
	p.refused("write without content", p.call("write", args{"path": p.path("x")}), invalidParams)
}

func checkCurrentEdit(p *probe) {
	p.write("f.txt", "one\ntwo\none\n")
	path := p.path("f.txt")
	a := p.ok("edit", args{"path": path, "before": "two\n", "after": "2\n2.5\n"})
	p.holds("the answer to edit", a.text("assistant"), "Edited "+path+" (")
	p.equal("the file", p.read("f.txt"), "one\n2\n2.5\none\n")
	p.refused("edit of what is not there", p.call("edit", args{"path": path, "before": "three", "after": "x"}), invalidParams, "No match found for the specified text.")
	p.refused("edit of what is there twice", p.call("edit", args{"path": path, "before": "one", "after": "x"}), invalidParams, "Found 2 matches")
	p.equal("the file", p.read("f.txt"), "one\n2\n2.5\none\n")
	p.ok("edit", args{"path": path, "before": "2.5\n", "after": ""})
	p.equal("the file after a deletion", p.read("f.txt"), "one\n2\none\n")
}

func checkCurrentTree(p *probe) {
	p.write("b.txt", "1\n2\n")
	p.write("a/x.txt", "1\n")
	p.write("a/deep/er/y.txt", "1\n")
	p.write(".gitignore", "skip.txt\n")
	p.write("skip.txt", "1\n")
	text := p.ok("tree", args{"path": p.path()}).text("assistant")
	p.holds("the tree", text, "a/", "x.txt", "b.txt")
	if strings.Contains(text, "y.txt") || strings.Contains(text, "skip.txt") {
		p.problem("the tree shows what is too deep or ignored: %s", excerpt(text))
	}
	if strings.Index(text, "a/") > strings.Index(text, "b.txt") {
		p.problem("files come before directories: %s", excerpt(text))
	}
	p.holds("the tree without a limit", p.ok("tree", args{"path": p.path(), "depth": 0}).text("assistant"), "y.txt")
	p.refused("tree of a missing path", p.call("tree", args{"path": p.path("missing")}), invalidParams, "Path does not exist: ")
	p.refused("tree of a file", p.call("tree", args{"path": p.path("b.txt")}), invalidParams, "Path is not a directory: ")
}

func checkCurrentImage(p *probe) {
	p.writeImage("a.png", picture(64, 48))
	a := p.ok("read_image", args{"source": p.path("a.png")})
	p.picture("an image", a, `"width":64`, `"height":48`, "image/png")
	a = p.ok("read_image", args{"source": p.path("a.png"), "crop": map[string]int{"x": 10, "y": 10, "width": 20, "height": 8}})
	p.picture("a part of an image", a, `"width":20`, `"height":8`, "image/png")
	p.refused("read_image of a missing file", p.call("read_image", args{"source": p.path("missing.png")}), invalidParams, "")
	p.write("text.png", "no image at all")
	p.refused("read_image of a text", p.call("read_image", args{"source": p.path("text.png")}), invalidParams, "")
}

// picture checks an answer with an image.
func (p *probe) picture(what string, a answer, words ...string) {
	found := false
	for _, b := range a.Content {
		found = found || b.Type == "image" && b.Data != "" && b.MimeType == "image/png"
	}
	if !found {
		p.problem("%s comes without a PNG: %s", what, excerpt(a.words()))
	}
	text, err := canonical(a.Structured)
	if err != nil {
		p.fail("%s comes without structuredContent: %s", what, excerpt(a.words()))
	}
	p.holds("the structure of "+what, string(text), words...)
}

func checkCurrentAnalyze(p *probe) {
	p.project()
	text := p.ok("analyze", args{"path": p.path()}).text("assistant")
	p.holds("the structure", text, "2 files, 43L, ", "(depth=3)\n", "go 74% | python 25%", "pkg/\n  util.py [11L", "main.go [32L")
	text = p.ok("analyze", args{"path": p.path("main.go")}).text("assistant")
	p.holds("the analysis of a file", text, "main.go [32L", "C: Server:10", "Logger:15", "helper(n int):22•4", "main:26")
	text = p.ok("analyze", args{"path": p.path(), "focus": "helper"}).text("assistant")
	p.holds("the focused analysis", text, "FOCUS: helper (1 defs", "DEF main.go:helper:22", "IN:\n", "main.go:Run:17", "2 files analyzed")
}

func checkCurrentPriority(p *probe) {
	a := p.ok("shell", args{"command": p.facts.dialect.echo("x")})
	for i, b := range a.Content {
		if b.Annotations.Priority == nil || *b.Annotations.Priority != 0 || len(b.Annotations.Audience) != 0 {
			p.problem("block %d does not have priority 0 and no audience: %s", i, fmt.Sprint(excerpt(a.words())))
		}
	}
}
