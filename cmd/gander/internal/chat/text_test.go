package chat

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// hide takes a secret out.
func hide(text string) string { return strings.ReplaceAll(text, "secret-1", "[hidden]") }

// written returns what a writer shows of an answer that comes in pieces of so many bytes.
func written(answer string, size, width int, plain bool) []string {
	w := writer{style: style{plain}, hide: hide}
	var lines []string
	for len(answer) > 0 {
		n := min(size, len(answer))
		lines = append(lines, w.add(answer[:n], width)...)
		answer = answer[n:]
	}
	return append(lines, w.end(width)...)
}

// Shows answers without colours, whole and byte by byte.
func TestWriter(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"a paragraph keeps its lines": {
			"# Done\n\nI changed **two** files\nin `a.go`, see [it](https://a.example/x?b=1&c=2).\n\n\nThe end",
			"# Done\n\nI changed **two** files\nin `a.go`, see it\nhttps://a.example/x?b=1&c=2.\n\nThe end",
		},
		"an item of a list may have more than a line": {
			"1. One\n\n   More of one.\n\n   ```sh\n   make\n   ```\n2. Two\n   - a\n\n   - b\n3. Three\n",
			"1. One\n\n   More of one.\n\n     make\n2. Two\n  - a\n\n   - b\n3. Three",
		},
		"a table": {
			"| Name | Size |\n|:--|--:|\n| a | 1 |\n| bc | 23 |\n",
			" Name               |              Size\n--------------------|-------------------\n a                  |                 1\n bc                 |                23",
		},
		"what looks like HTML is text": {
			"Vec<String> is `Vec<&str>`, not `&lt;`, at <https://a.example> &amp; there.\n\n```html\n<b>&lt;</b>\n```\n",
			"Vec<String> is `Vec<&str>`, not `&lt;`,\nat https://a.example & there.\n\n  <b>&lt;</b>",
		},
		"code that is only indented":     {"    <b>\n", "  <b>"},
		"a fence in an item and a quote": {"- ```\n  <a>\n  ```\n\n> ```\n> <b>\n> ```\n", "-\n  <a>\n\n|\n|   <b>"},
		"a fence that is not closed":     {"~~~\n```\n\n- a", "  ```\n\n  - a"},
		"a task":                         {"- [x] done\n- [ ] open\n", "[x] done\n[ ] open"},
	} {
		for _, size := range []int{1, len(c.answer)} {
			if got := strings.TrimRight(strings.Join(written(c.answer, size, 40, true), "\n"), "\n"); got != c.want {
				t.Errorf("%s, in pieces of %d:\n%s\ninstead of\n%s", name, size, got, c.want)
			}
		}
	}
}

// Colours an answer, and its code by its language.
func TestWriterColours(t *testing.T) {
	got := strings.Join(written("**strong** `code`\n\n```go\nfunc main() { x(\"secret-1\") }\nvar secret-1\n```\n", 1000, 40, false), "\n")
	if strings.Contains(regexp.MustCompile(`\x1b\[[0-9;:]*m`).ReplaceAllString(got, ""), "secret-1") {
		t.Errorf("a secret is shown: %q", got)
	}
	for _, want := range []string{"\x1b[1mstrong\x1b[m", "\x1b[36mcode\x1b", "\x1b[34mfunc\x1b"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

// Shows a block as it came until it ends, and a long one in parts.
func TestWriterStreams(t *testing.T) {
	w := writer{style: style{plain: true}, hide: hide}
	if got := w.add("some\n**wo", 40); got != nil || w.rest(40, 9) != "some\n**wo" || w.rest(40, 1) != "**wo" {
		t.Errorf("%q is shown, %q still comes", got, w.rest(40, 9))
	}
	if got := w.add("rds**\n\n", 40); strings.Join(got, "\n") != "some\n**words**\n" || w.rest(40, 9) != "" {
		t.Errorf("%q is shown, %q still comes", got, w.rest(40, 9))
	}
	if got := w.add("secret-", 40); got != nil || w.rest(40, 9) != "secret-" {
		t.Errorf("%q is shown, %q still comes", got, w.rest(40, 9))
	}
	if got := w.add("1.", 40); got != nil || w.rest(40, 9) != "[hidden]." {
		t.Errorf("%q is shown, %q still comes", got, w.rest(40, 9))
	}
	w.add("\n", 40)
	if got := w.add("```\n"+strings.Repeat("<x>\n", 250), 40); len(got) != 1+2*(mostLines-1) || got[0] != "[hidden]." {
		t.Errorf("%d lines of 250 are shown, the first %q", len(got), got[0])
	}
	if got := w.end(40); len(got) != 250-2*(mostLines-1) || got[0] != "  <x>" {
		t.Errorf("at the end %d lines are shown, the first %q", len(got), got[0])
	}
}

// Lets an answer do nothing to the terminal but colour it, nor hide where a link leads, nor be wider.
func TestWriterLeavesOnlyColours(t *testing.T) {
	colours := regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	hostile := []string{
		"\x1b]0;title\x07", "\x1b[2J", "\u009b2J", "\u202e", "&#27;]0;title&#7;", "&#x1b;[2J", "`&#27;[2J`", "&rlm;", "&#8238;", "[a&#27;](http://b)", "[https://good.example](https://bad.example)",
		"![&#27;](&#27;)", "<b title=\"&#27;\">", "~~&#27;~~", "\\&#27;", "a\rb", "x-" + strings.Repeat("y", 37) + "|---|---", "&#27",
	}
	for _, text := range hostile {
		for _, around := range []string{"%", "# %", "- %\n  - %", "> %", "| a | b |\n|---|---|\n| c | % |", "**%**", "```\n%\n```", "    %", "%\n\n   %", "[%](%)", "```%\n%\n```"} {
			answer := strings.ReplaceAll(around, "%", text)
			var b strings.Builder
			for _, line := range written(answer, 1000, 40, false) {
				line = colours.ReplaceAllString(line, "")
				b.WriteString(line)
				if ansi.StringWidth(line) > 40 {
					t.Errorf("%q is shown as %q, more than 40 columns wide", answer, line)
				}
			}
			shown := b.String()
			if strings.ContainsFunc(shown, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Errorf("%q is shown as %q", answer, shown)
			}
			whole := strings.NewReplacer(" ", "", "│", "").Replace(shown) // a cell of a table has several lines
			if strings.Contains(text, "bad.example") && !strings.Contains(whole, "bad.example") {
				t.Errorf("%q is shown as %q, without where it leads", answer, shown)
			}
		}
	}
}
