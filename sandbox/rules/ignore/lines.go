package ignore

import (
	"strings"
)

// Where this package hides more than git. Git is what people know, and what it
// hides is hidden here; but a rule that was written to keep a secret should not
// fail because of how it was written, and the matcher of classic goose gave some
// lines a meaning that git does not. None of it holds for a line with "!".
//
//   - `{a,b}` means a or b, as in classic goose, besides the characters themselves;
//   - "?" and a bracket expression match a whole character of several bytes;
//   - white space around a name is taken for a mistake, besides for a part of it;
//   - "./name" is "/name";
//   - an expression that git refuses (a bracket without end, a backslash at the
//     end of the line) hides the file that is called that;
//   - where case is folded, it is folded in all scripts, within brackets and behind
//     backslashes, and characters that file systems take for the same are the same.

// A dialect says how lines are read.
type dialect struct {
	fold  bool // without case, as git does it, for ASCII
	wide  bool // and for all scripts
	exact bool // like git, without the list above; for the test that compares
}

// compileLine makes the rules of one line, none for a comment.
func compileLine(where Rule, d dialect) ([]*rule, []Problem) {
	var problems []Problem
	report := func(message string) { problems = append(problems, Problem{where, message}) }
	var rules []*rule
	lines := []string{where.Text}
	if !d.exact {
		lines = spellings(where.Text, report)
	}
	for _, line := range lines {
		p, ok := parsePattern(line)
		if !ok {
			continue
		}
		if d.wide {
			p.glob = foldWide(p.glob)
		}
		if !p.parse(d) {
			if d.exact || p.negative {
				report("the pattern is malformed, so the line brings nothing back")
				continue
			}
			report("the pattern is malformed, so it hides only what is called exactly that")
			p.literally(d)
		}
		rules = append(rules, newRule(where, p))
	}
	return rules, problems
}

// spellings are the lines that a line stands for, itself first.
func spellings(line string, report func(string)) []string {
	if strings.HasPrefix(line, "!") {
		if hasBraces(line) {
			report("braces have no meaning in a line that brings files back; write a line for each")
		}
		return []string{line}
	}
	all := []string{line}
	if strings.HasPrefix(line, "#") {
		return all
	}
	if trimmed := strings.TrimSpace(line); trimmed != line && trimmed != "" && trimmed != trimTrailingSpaces(line) && !strings.HasSuffix(trimmed, `\`) {
		report("white space around the name is part of it for git; the name without it is hidden, too")
		all = append(all, escapeMark(trimmed))
	}
	for _, l := range all {
		if rest, ok := strings.CutPrefix(l, "./"); ok {
			report(`git never matches "./"; it is taken for "/"`)
			all = append(all, "/"+rest)
		}
	}
	for _, l := range all {
		if !hasBraces(l) {
			continue
		}
		expanded, ok := expandBraces(l)
		if !ok {
			report("too many alternatives in braces; what is before the first brace hides everything that begins so")
		}
		for _, e := range expanded {
			all = append(all, escapeMark(e))
		}
	}
	return all
}

// escapeMark keeps a character that came to the front from meaning something there.
func escapeMark(line string) string {
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "!") {
		return `\` + line
	}
	return line
}
