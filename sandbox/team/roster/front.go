package roster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// entry is one key of a front matter. That of a map has the key of the map and a dot in front.
type entry struct {
	key       string
	line, end int // the first and the last, of the file
	text      string
	list      []string
	isList    bool
}

// empty reports whether nothing follows the key.
func (e entry) empty() bool { return e.text == "" && len(e.list) == 0 }

// front is a reader of front matter: "key: value" in lines, lists and maps of one level as
// YAML writes them, and texts over several lines. The line of a "#" is a comment, and so is
// " # " and what follows it.
type front struct {
	lines []string
	next  int
	keys  []entry
}

// parseFront reads the lines between the fences.
func parseFront(lines []string) ([]entry, *Problem) {
	f := &front{lines: lines}
	for f.next < len(f.lines) {
		if problem := f.key(); problem != nil {
			return nil, problem
		}
	}
	return f.keys, nil
}

// at returns the number of a line in the file.
func at(i int) int { return i + 2 }

var keyName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// key reads the next key with all that belongs to it.
func (f *front) key() *Problem {
	i, line := f.next, f.lines[f.next]
	f.next++
	if reason := readable(line); reason != "" {
		return &Problem{Line: at(i), Reason: reason}
	}
	if isBlank(line) {
		return nil
	}
	name, value, found := strings.Cut(line, ":")
	name = strings.TrimRight(name, " \t")
	if line[0] == ' ' || line[0] == '\t' || !found || !keyName.MatchString(name) {
		return &Problem{Line: at(i), Reason: fmt.Sprintf("want a key and its value, as in \"name: Reviewer\", got %q", shorten(line))}
	}
	e := entry{key: name, line: at(i), end: at(i)}
	value = uncommented(strings.TrimSpace(value))
	switch {
	case value == "":
		return f.below(e)
	case value[0] == '[':
		if !strings.HasSuffix(value, "]") {
			return &Problem{Line: at(i), Reason: name + ": the list is not closed by \"]\" on its line"}
		}
		e.isList = true
		for _, item := range items(value[1 : len(value)-1]) {
			e.list = append(e.list, unquote(item))
		}
	case value[0] == '{':
		if !strings.HasSuffix(value, "}") {
			return &Problem{Line: at(i), Reason: name + ": the map is not closed by \"}\" on its line"}
		}
		return f.inline(e, value[1:len(value)-1])
	case value == "|" || value == ">" || value == "|-" || value == ">-":
		e.text = f.folded(value[0] == '>')
		e.end = at(f.next - 1)
	case isOpen(value):
		return &Problem{Line: at(i), Reason: name + ": the quote is not closed"}
	default:
		e.text = unquote(value)
	}
	return f.add(e)
}

// add keeps a key unless it is there.
func (f *front) add(e entry) *Problem {
	for _, other := range f.keys {
		if other.key == e.key {
			return &Problem{Line: e.line, Reason: fmt.Sprintf("the key %s is there twice; the first is in line %d", e.key, other.line)}
		}
	}
	f.keys = append(f.keys, e)
	return nil
}

// below reads what stands under a key without a value: a list, a map or nothing.
func (f *front) below(e entry) *Problem {
	isMap := false
	for f.next < len(f.lines) {
		i, line := f.next, f.lines[f.next]
		trimmed := strings.TrimSpace(line)
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		isItem := trimmed == "-" || strings.HasPrefix(trimmed, "- ")
		if isBlank(line) {
			f.next++
			continue
		}
		if !indented && !isItem || isMap && isItem {
			break
		}
		if reason := readable(line); reason != "" {
			return &Problem{Line: at(i), Reason: reason}
		}
		if isItem {
			e.isList, e.end = true, at(i)
			e.list = append(e.list, unquote(uncommented(strings.TrimSpace(trimmed[1:]))))
			f.next++
			continue
		}
		name, value, found := strings.Cut(trimmed, ":")
		if e.isList || !found || !keyName.MatchString(strings.TrimSpace(name)) {
			return &Problem{Line: at(i), Reason: fmt.Sprintf("want a value of %s, as in \"  canReceive: true\", got %q", e.key, shorten(trimmed))}
		}
		isMap = true
		f.next++
		if problem := f.add(entry{key: e.key + "." + strings.TrimSpace(name), line: at(i), end: at(i), text: unquote(uncommented(strings.TrimSpace(value)))}); problem != nil {
			return problem
		}
	}
	if isMap {
		return nil
	}
	return f.add(e)
}

// inline reads a map that is written on one line.
func (f *front) inline(e entry, inside string) *Problem {
	for _, item := range items(inside) {
		name, value, found := strings.Cut(item, ":")
		if name = strings.TrimSpace(name); !found || !keyName.MatchString(name) {
			return &Problem{Line: e.line, Reason: fmt.Sprintf("%s: want \"key: value\" between the commas, got %q", e.key, shorten(item))}
		}
		if problem := f.add(entry{key: e.key + "." + name, line: e.line, end: e.end, text: unquote(strings.TrimSpace(value))}); problem != nil {
			return problem
		}
	}
	return nil
}

// folded reads the indented lines of a text, as one line where they are folded.
func (f *front) folded(fold bool) string {
	var text []string
	for f.next < len(f.lines) {
		line := f.lines[f.next]
		if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
			break
		}
		text = append(text, strings.TrimSpace(line))
		f.next++
	}
	if fold {
		return strings.Join(strings.Fields(strings.Join(text, " ")), " ")
	}
	return strings.TrimSpace(strings.Join(text, "\n"))
}

func isBlank(line string) bool {
	trimmed := strings.TrimSpace(line)
	return trimmed == "" || trimmed[0] == '#'
}

// readable says why a line cannot be read; empty when it can.
func readable(line string) string {
	if !utf8.ValidString(line) {
		return "the line is not text in UTF-8"
	}
	if i := strings.IndexFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }); i >= 0 {
		return fmt.Sprintf("the line has the control character %q in it", line[i:i+1])
	}
	return ""
}

// uncommented returns a value without the comment behind it.
func uncommented(value string) string {
	if value == "" || value[0] == '#' {
		return ""
	}
	quote := byte(0)
	for i := range len(value) {
		switch c := value[i]; {
		case i == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote && (quote == '\'' || value[i-1] != '\\'):
			quote = 0
		case quote == 0 && c == '#' && i > 0 && isSpace(value[i-1]) && (i+1 == len(value) || isSpace(value[i+1])):
			return strings.TrimRight(value[:i], " \t")
		}
	}
	return value
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// isOpen reports whether a value begins with a quote that nothing closes.
func isOpen(value string) bool {
	return (value[0] == '"' || value[0] == '\'') && strings.Count(value, value[:1]) == 1
}

// unquote returns the text of a value.
func unquote(value string) string {
	if len(value) < 2 || value[0] != value[len(value)-1] {
		return value
	}
	inside := value[1 : len(value)-1]
	switch value[0] {
	case '\'':
		return strings.ReplaceAll(inside, "''", "'")
	case '"':
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(inside)
	}
	return value
}

// quote writes a text so that it reads as it is.
func quote(text string) string {
	if plain := strings.TrimSpace(text); plain == text && text != "" && !strings.ContainsAny(text[:1], `"'[{|>#-&*!%@`+"`") && readable(text) == "" && uncommented(text) == text && !strings.Contains(text, ": ") {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}

// items splits at commas outside of quotes, and leaves out what is empty.
func items(text string) []string {
	var out []string
	quote, start := rune(0), 0
	take := func(end int) {
		if item := strings.TrimSpace(text[start:end]); item != "" {
			out = append(out, item)
		}
		start = end + 1
	}
	for i, r := range text {
		switch {
		case quote == 0 && r == ',':
			take(i)
		case quote == r:
			quote = 0
		case quote == 0 && (r == '"' || r == '\'') && strings.TrimSpace(text[start:i]) == "":
			quote = r
		}
	}
	take(len(text))
	return out
}

func boolean(text string) (is, ok bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "1":
		return true, true
	case "false", "no", "0":
		return false, true
	}
	return false, false
}

func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= -1000 && n <= 1000
}

// shorten keeps what a file says from filling a message.
func shorten(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
