package mcp

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/conformance/harness"
)

func outputChecks() []Check {
	shell := []string{"shell"}
	return []Check{
		{ID: "output.verbatim", Platform: "unix", Requirements: []int{26, 34}, needs: shell, run: checkVerbatim, Text: "a hundred lines come back as they are: indentation, blank lines, tabs"},
		{ID: "output.tail", Requirements: []int{34, 35, 66}, needs: shell, run: checkTail, Text: "of more lines the last ones come back, with a notice of how many there were"},
		{ID: "output.saved", Platform: "unix", Requirements: []int{35, 50}, needs: shell, run: checkSaved, Text: "the whole output can be read in the file that the notice names"},
		{ID: "output.lines", Platform: "unix", Requirements: []int{34, 35, 50, 66}, needs: shell, run: checkManyLines, Text: "of 400,000 lines the answer is short, its tail right and its notice says how many there were, each time alike"},
		{ID: "output.huge-line", Platform: "unix", Requirements: []int{34, 50, 66}, needs: shell, run: checkHugeLine, Text: "a line of megabytes is cut, and what follows it is there"},
		{ID: "output.invalid-utf8", Platform: "unix", Requirements: []int{26}, needs: shell, run: checkInvalidUTF8, Text: "bytes that are no UTF-8 are replaced, and their neighbours kept"},
		{ID: "output.cut", Platform: "unix", Requirements: []int{34}, needs: shell, run: checkCut, Text: "no character is cut in two"},
		{ID: "output.memory", Platform: "unix", Requirements: []int{61, 66}, needs: shell, run: checkMemory, Text: "150 MB of output cost the server less than 64 MB"},
	}
}

// shown is how many of the last lines each profile shows of a long output.
func (p *probe) shown() int {
	if p.classic() {
		return 100
	}
	return 50
}

// tail is the end of an output of n numbered lines, as far as every server shows it.
func (p *probe) tail(n int) string {
	var b strings.Builder
	for i := n - p.shown() + 1; i <= n; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return strings.TrimRight(b.String(), "\n")
}

func checkVerbatim(p *probe) {
	want := "  indented\n\ttab\n\n\nspaces at the end   \n" + strings.Repeat("x\n", 95)
	p.write("text", want)
	a := p.ok("shell", args{"command": "cat text"})
	if p.classic() {
		assistant, user := p.split("the result", a, 0)
		p.equal("the output for the assistant", assistant, want)
		p.equal("the output for the user", user, want)
		return
	}
	p.equal("the output", strings.TrimRight(a.text("assistant"), "\n"), strings.TrimRight(want, "\n"))
}

func checkTail(p *probe) {
	n := 150
	if !p.classic() {
		n = 2100
	}
	a := p.ok("shell", args{"command": p.facts.dialect.lines(n)})
	if !p.classic() {
		p.holds("the output", lf(a.text("assistant")), p.tail(n), "2000 line limit")
		return
	}
	assistant, user := p.split("the result", a, 0)
	p.holds("the output for the assistant", lf(assistant), "150 lines", p.tail(n))
	p.holds("the output for the user", lf(user), "NOTE: Output was 150 lines, showing only the last 100 lines.\n\n", p.tail(n))
	if strings.Contains(lf(user), "\n50\n") {
		p.problem("more than the last 100 lines are shown")
	}
}

var savedPath = regexp.MustCompile(`(/[^\s,;:'"\]]*[^\s,;:'"\].])`)

func checkSaved(p *probe) {
	const n = 2500
	a := p.ok("shell", args{"command": p.facts.dialect.lines(n)})
	notice := strings.ReplaceAll(a.text("assistant"), p.tail(n), "")
	for _, file := range savedPath.FindAllString(notice, -1) {
		count := p.call("shell", args{"command": "wc -l < '" + file + "'; head -n 1 '" + file + "'"})
		if strings.Join(strings.Fields(count.text("assistant")), " ") == fmt.Sprintf("%d 1", n) {
			return
		}
	}
	p.problem("no file that the notice names has the whole output: %s", excerpt(notice))
}

// answerBound is more than any answer needs, and less than what was printed.
const answerBound = 1 << 20

func (p *probe) bounded(what string, a answer) {
	if len(a.frame.Raw) > answerBound {
		p.problem("the answer to %s has %d bytes", what, len(a.frame.Raw))
	}
}

func checkManyLines(p *probe) {
	const n = 400_000
	first := ""
	for range 2 {
		a := p.call("shell", args{"command": fmt.Sprintf("seq 1 %d", n)})
		p.worked(a, "shell", args{"command": "(prints 400,000 lines)"})
		p.bounded("400,000 lines", a)
		p.holds("the output", a.text("assistant"), p.tail(n))
		if !regexp.MustCompile(`400,?000 lines`).MatchString(a.text("assistant")) {
			p.problem("no notice says that there were 400000 lines: %s", excerpt(a.text("assistant")))
		}
		same := regexp.MustCompile(`/\S+`).ReplaceAllString(a.text("assistant"), "(file)")
		if first == "" {
			first = same
		}
		p.equal("the answer to the same command", same, first)
	}
}

func checkHugeLine(p *probe) {
	a := p.call("shell", args{"command": "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo THE END"})
	p.worked(a, "shell", args{"command": "(prints a line of 3 MB)"})
	p.bounded("a line of 3 MB", a)
	p.holds("the output", a.text("assistant"), "THE END")
}

func checkInvalidUTF8(p *probe) {
	s := p.begin(launch{})
	a := p.callOn(s, "shell", args{"command": `printf 'left\377\376right\n\200\n'`})
	p.worked(a, "shell", nil)
	p.holds("the output", a.text("assistant"), "left\ufffd", "right")
	for _, bad := range s.Bad() {
		p.problem("%s", bad)
	}
}

func checkCut(p *probe) {
	s := p.begin(launch{})
	a := p.callOn(s, "shell", args{"command": `i=0; s=é世🦆x; while [ $i -lt 15 ]; do s=$s$s; i=$((i+1)); done; printf '%s\n' "$s"; printf '%s\n' "$s"`})
	p.worked(a, "shell", args{"command": "(prints two lines of 327,680 bytes)"})
	texts := a.text("assistant") + a.text("user") + s.streamed("stdout", 0)
	if i := strings.IndexRune(texts, utf8.RuneError); i >= 0 {
		p.problem("a character is cut: %s", excerpt(texts[max(0, i-30):min(len(texts), i+30)]))
	}
	for _, bad := range s.Bad() {
		p.problem("%s", bad)
	}
}

func checkMemory(p *probe) {
	const allowed = 64 << 20
	if !harness.CanSeeProcesses || !p.facts.sees {
		p.skip("the server's memory cannot be seen from here")
	}
	s := p.begin(launch{})
	p.callOn(s, "shell", args{"command": "echo warm"})
	before := harness.UsageOf(s.PID)
	line := strings.Repeat("0123456789", 100)
	a := p.callOn(s, "shell", args{"command": "yes " + line + " | head -c 150000000; echo; echo THE END"})
	p.holds("the output", a.text("assistant"), "THE END")
	after := harness.UsageOf(s.PID)
	if grown := after.Peak - before.Resident; grown > allowed {
		p.problem("150 MB of output took %d MB of memory", grown>>20)
	}
}
