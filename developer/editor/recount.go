package editor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// hunkHeader is a header as diff writes it; the numbers may be wrong.
const hunkHeader = `^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$`

// headerOfCRLF finds a header in a diff whose own lines end with CRLF.
var headerOfCRLF = regexp.MustCompile(`(?m)^@@(?:.* @@)?\r$`)

// recount mends the headers of the hunks of a diff: models seldom count their
// lines right, and leave the numbers out altogether. A header whose counts fit is
// left alone. A header without numbers gets line 0, which stands for unknown.
// What is not part of a hunk stays as it is. A line in a hunk that has no mark of
// its own is an error: dropping it would change something else than was meant.
func recount(diff string) (string, error) {
	if headerOfCRLF.MatchString(diff) {
		diff = toLF(diff) // its own line ends, not those of the files that it is about
	}
	lines := strings.Split(strings.TrimRight(diff, "\n"), "\n")
	header := regexp.MustCompile(hunkHeader)
	out := make([]string, 0, len(lines))
	git := false // in the headers of a file, written by git
	for i := 0; i < len(lines); {
		if !strings.HasPrefix(lines[i], "@@") {
			git = git || strings.HasPrefix(lines[i], "diff --git ")
			if !git {
				withoutPrefixes(lines[i:])
			}
			out = append(out, lines[i])
			i++
			continue
		}
		git = false
		h := parseHeader(header, lines[i])
		body := lines[i+1:]
		n, ok := declared(body, h)
		if !ok {
			var err error
			if n, err = measured(body); err != nil {
				return "", fmt.Errorf("line %d: %w", i+2+n, err)
			}
			h.count(body[:n])
		}
		out = append(out, h.String())
		for _, l := range body[:n] {
			if l == "\r" {
				l = " \r"
			}
			out = append(out, l)
		}
		i += 1 + n
	}
	return strings.Join(out, "\n") + "\n", nil
}

// withoutPrefixes takes a/ and b/ off the names in the two header lines of a file,
// where they begin. (Below a line "diff --git" they are known to be there, and the
// parser takes them off.)
func withoutPrefixes(lines []string) {
	if !startsFile(lines) || len(lines) < 2 {
		return
	}
	old, cutOld := withoutPrefix(lines[0], "--- ", "a/")
	new, cutNew := withoutPrefix(lines[1], "+++ ", "b/")
	if cutOld && cutNew {
		lines[0], lines[1] = old, new
	}
}

func withoutPrefix(l, mark, prefix string) (string, bool) {
	name := strings.TrimPrefix(l, mark)
	for _, quoted := range []string{"", `"`} {
		if rest, ok := strings.CutPrefix(name, quoted+prefix); ok {
			return mark + quoted + rest, true
		}
	}
	return l, name == "/dev/null" || strings.HasPrefix(name, "/dev/null\t")
}

// A header is the numbers of a hunk.
type header struct {
	oldStart, oldLines, newStart, newLines int
	section                                string
}

func parseHeader(re *regexp.Regexp, s string) header {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return header{oldLines: -1}
	}
	number := func(s string, missing int) int {
		if s == "" {
			return missing
		}
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return 1<<31 - 1 // further than any file goes
		}
		return int(n)
	}
	return header{number(m[1], 0), number(m[2], 1), number(m[3], 0), number(m[4], 1), m[5]}
}

func (h header) String() string {
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@%s", h.oldStart, h.oldLines, h.newStart, h.newLines, h.section)
}

// count sets the counts to those of a body.
func (h *header) count(body []string) {
	h.oldLines, h.newLines = 0, 0
	for _, l := range body {
		inOld, inNew := sides(l)
		h.oldLines += inOld
		h.newLines += inNew
	}
}

// sides says in which of the two files a line of a hunk counts. An empty one is a
// context line that lost its space.
func sides(l string) (inOld, inNew int) {
	switch {
	case blank(l) || l[0] == ' ':
		return 1, 1
	case l[0] == '-':
		return 1, 0
	case l[0] == '+':
		return 0, 1
	}
	return 0, 0
}

// declared takes as many lines as the header says. It is not ok when they are not
// there, or when the hunk seems to go on after them.
func declared(body []string, h header) (n int, ok bool) {
	old, new := h.oldLines, h.newLines
	for ; old > 0 || new > 0; n++ {
		if n == len(body) || !inHunk(body[n]) {
			return 0, false
		}
		inOld, inNew := sides(body[n])
		old, new = old-inOld, new-inNew
	}
	if n < len(body) && strings.HasPrefix(body[n], `\ `) {
		n++
	}
	goesOn := n < len(body) && !blank(body[n]) && inHunk(body[n]) && !startsFile(body[n:]) && body[n] != "-- "
	return n, old == 0 && new == 0 && n > 0 && !goesOn
}

// measured takes lines up to the next header. Empty lines at the end are not part
// of the hunk.
func measured(body []string) (n int, err error) {
	for n < len(body) && !strings.HasPrefix(body[n], "@@") && !startsFile(body[n:]) {
		if !inHunk(body[n]) {
			return n, fmt.Errorf("%q begins with neither a space, + nor -; every line of a hunk needs one of them", cut(body[n]))
		}
		n++
	}
	for n > 0 && blank(body[n-1]) {
		n--
	}
	return n, nil
}

// blank is a context line that has nothing, not even its space.
func blank(l string) bool { return l == "" || l == "\r" }

func inHunk(l string) bool {
	return blank(l) || strings.ContainsRune(` +-\`, rune(l[0]))
}

// startsFile says whether the headers of a file begin here.
func startsFile(lines []string) bool {
	l := lines[0]
	if strings.HasPrefix(l, "diff --git ") || strings.HasPrefix(l, "Index: ") {
		return true
	}
	return strings.HasPrefix(l, "--- ") && len(lines) > 1 && strings.HasPrefix(lines[1], "+++ ")
}

// cut bounds a line that goes into a message.
func cut(s string) string {
	if len(s) <= nearQuote {
		return s
	}
	return strings.ToValidUTF8(s[:nearQuote], "") + "..."
}
