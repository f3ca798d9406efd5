package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var fakeLanguages = map[string]string{".go": "go", ".py": "python", ".rs": "rust", ".ts": "typescript", ".sh": "bash", ".md": "markdown"}

func fence(path, body string) string {
	return "```" + fakeLanguages[filepath.Ext(path)] + "\n" + body + "\n```\n"
}

func (c *fakeCall) textEditor() (content, error) {
	name, err := need[string](c, "path")
	if err != nil {
		return nil, err
	}
	command, err := need[string](c, "command")
	if err != nil {
		return nil, err
	}
	path, err := c.path(name, internalError)
	if err != nil {
		return nil, err
	}
	if command != "view" || !filepath.IsAbs(name) && !c.broken("reads through links out") {
		if err := c.confined(name, path); err != nil {
			return nil, err
		}
	}
	switch command {
	case "view":
		return c.view(path)
	case "write":
		return c.write(path)
	case "str_replace":
		if diff, ok, _ := get[string](c, "diff"); ok {
			return c.diff(path, diff)
		}
		return c.replace(path)
	case "insert":
		return c.insert(path)
	case "undo_edit":
		return c.undo(path)
	}
	if c.broken("ignores unknown commands") {
		return text("ok"), nil
	}
	return nil, invalid("Unknown command '%s'", command)
}

// parameter is an argument that a command needs.
func parameter[T any](c *fakeCall, name, command string) (T, error) {
	v, ok, err := get[T](c, name)
	if err == nil && !ok {
		err = invalid("Missing '%s' parameter for %s command", name, command)
	}
	return v, err
}

func (c *fakeCall) view(path string) (content, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, internal("The path '%s' does not exist or is not accessible.", path)
	}
	if info.IsDir() {
		return c.viewDir(path)
	}
	if info.Size() > 409600 && !c.broken("views any size") {
		return nil, internal("File '%s' is too large (%.2fKB). Maximum size is 400KB to prevent memory issues.", path, float64(info.Size())/1024)
	}
	data, err := os.ReadFile(path)
	if err != nil || !utf8.Valid(data) && !c.broken("views bytes") {
		return nil, internal("Failed to read file: not UTF-8")
	}
	lines := strings.Split(strings.TrimSuffix(lf(string(data)), "\n"), "\n")
	span, ranged, err := get[[]int](c, "view_range")
	if err != nil {
		return nil, err
	}
	first, last, heading := 1, len(lines), ""
	if ranged {
		first, last = max(1, span[0]), span[1]
		end := fmt.Sprint(last)
		if last == -1 {
			end, last = "end", len(lines)
		}
		switch {
		case first > len(lines):
			return nil, invalid("Start line %d is beyond the end of the file (total lines: %d)", first, len(lines))
		case first > last:
			return nil, invalid("Start line %d must be less than end line %d", first, last)
		}
		last = min(last, len(lines))
		if c.broken("clips ranges") {
			last--
		}
		heading = fmt.Sprintf(" (lines %d-%s)", first, end)
	} else if len(lines) > 2000 {
		return nil, internal("File '%s' is %d lines long, recommended to read in with view_range, or [1, %d]", path, len(lines), len(lines))
	}
	var numbered []string
	for i, line := range lines[first-1 : last] {
		numbered = append(numbered, fmt.Sprintf("%d: %s", i+first, line))
	}
	t := "### " + path + heading + "\n" + fence(path, strings.Join(numbered, "\n"))
	return both(t, t, 0), nil
}

func (c *fakeCall) viewDir(path string) (content, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, internal("Failed to read directory: %v", err)
	}
	var dirs, files []string
	shown, more := 0, 0
	for _, e := range entries {
		if c.rules.ignored(filepath.Join(path, e.Name())) && !c.broken("lists everything") {
			continue
		}
		if shown++; shown > 50 && !c.broken("lists without end") {
			more++
			continue
		}
		if e.IsDir() {
			dirs = append(dirs, "  "+e.Name()+"/\n")
		} else {
			files = append(files, "  "+e.Name()+"\n")
		}
	}
	t := "'" + path + "' is a directory. Contents:\n\n"
	if len(dirs) > 0 {
		t += "Directories:\n" + strings.Join(dirs, "") + "\n"
	}
	if len(files) > 0 {
		t += "Files:\n" + strings.Join(files, "")
	}
	if more > 0 {
		t += fmt.Sprintf("\n... and %d more items (showing first 50 items)\n", more)
	}
	return text(t), nil
}

// save writes a file and remembers what was there.
func (c *fakeCall) save(path, data string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return internal("Failed to write file: %v", err)
	}
	old, _ := os.ReadFile(path)
	if !c.broken("keeps one undo") || len(c.history[path]) == 0 {
		c.history[path] = append(c.history[path], string(old))
	}
	if c.broken("loses modes") {
		_ = os.Remove(path)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		return internal("Failed to write file: %v", err)
	}
	return nil
}

func (c *fakeCall) write(path string) (content, error) {
	data, err := parameter[string](c, "file_text", "write")
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(data, "\n") && !c.broken("writes as given") {
		data += "\n"
	}
	if err := c.save(path, data); err != nil {
		return nil, err
	}
	return both("Successfully wrote to "+path, "### "+path+"\n"+fence(path, data), 0.2), nil
}

// style returns a file with LF, and whether it had CRLF.
func (c *fakeCall) style(path string) (data string, crlf bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false, invalid("File '%s' does not exist, you can write a new file with the `write` command", path)
	}
	crlf = strings.Contains(string(text), "\r\n") && !c.broken("writes LF")
	return lf(string(text)), crlf, nil
}

func (c *fakeCall) saveStyle(path, data string, crlf bool) error {
	if crlf {
		data = strings.ReplaceAll(data, "\n", "\r\n")
	}
	return c.save(path, data)
}

func (c *fakeCall) replace(path string) (content, error) {
	old, err := parameter[string](c, "old_str", "str_replace")
	if err != nil {
		return nil, err
	}
	with, err := parameter[string](c, "new_str", "str_replace")
	if err != nil {
		return nil, err
	}
	data, crlf, err := c.style(path)
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(data, old); {
	case n == 0:
		return nil, invalid("'old_str' must appear exactly once in the file, but it does not appear in the file. Make sure the string matches.")
	case n > 1 && !c.broken("replaces the first of many"):
		return nil, invalid("'old_str' must appear exactly once in the file, but it appears multiple times")
	}
	if c.broken("never deletes") && with == "" {
		with = old
	}
	if err := c.saveStyle(path, strings.Replace(data, old, with, 1), crlf); err != nil {
		return nil, err
	}
	return changed(path, "The file "+path+" has been edited, and the section now reads:", with), nil
}

func changed(path, what, snippet string) content {
	f := fence(path, snippet)
	return both(what+"\n"+f+"Review the changes above for errors. Undo and edit the file again if necessary!\n", f, 0.2)
}

func (c *fakeCall) insert(path string) (content, error) {
	n, err := parameter[int](c, "insert_line", "insert")
	if err != nil {
		return nil, err
	}
	with, err := parameter[string](c, "new_str", "insert")
	if err != nil {
		return nil, err
	}
	data, crlf, err := c.style(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(data, "\n"), "\n")
	at := n
	if at < 0 {
		at += len(lines) + 1
	}
	if c.broken("inserts one line late") {
		at = min(at+1, len(lines))
	}
	if at < 0 || at > len(lines) {
		if c.broken("inserts anywhere") {
			at = len(lines)
		} else {
			return nil, invalid("Insert line %d is beyond the end of the file (total lines: %d). Use 0 to insert at the beginning.", n, len(lines))
		}
	}
	lines = slices.Insert(lines, at, with)
	if err := c.saveStyle(path, strings.Join(lines, "\n")+"\n", crlf); err != nil {
		return nil, err
	}
	return changed(path, fmt.Sprintf("Text has been inserted at line %d in %s. The section now reads:", at+1, path), fmt.Sprintf("%d: %s", at+1, with)), nil
}

func (c *fakeCall) undo(path string) (content, error) {
	h := c.history[path]
	if len(h) == 0 {
		return nil, invalid("No edit history available to undo")
	}
	c.history[path] = h[:len(h)-1]
	if err := os.WriteFile(path, []byte(h[len(h)-1]), 0o644); err != nil {
		return nil, internal("Failed to write file: %v", err)
	}
	return text("Undid the last edit"), nil
}

var (
	fakeFile = regexp.MustCompile(`(?m)^--- (\S+).*\n\+\+\+ (\S+).*\n`)
	fakeHunk = regexp.MustCompile(`(?m)^@@ .*\n`)
)

// diff applies a unified diff, all of it or nothing.
func (c *fakeCall) diff(path, diff string) (content, error) {
	diff = strings.TrimSuffix(strings.TrimPrefix(diff, "```diff\n"), "```\n")
	files := fakeFile.FindAllStringSubmatchIndex(diff, -1)
	switch {
	case len(diff) > 1<<20 && !c.broken("takes any diff"):
		return nil, invalid("Diff is too large (%d bytes). Maximum size is 1048576 bytes (1MB).", len(diff))
	case len(files) == 0:
		return nil, invalid("The 'diff' parameter must be in unified diff format")
	case len(files) > 100:
		return nil, invalid("Too many files in diff (%d). Maximum is 100 files.", len(files))
	}
	base := path
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		base = filepath.Dir(path)
	}
	results, created := map[string]string{}, 0
	added, removed := 0, 0
	for i, m := range files {
		end := len(diff)
		if i+1 < len(files) {
			end = files[i+1][0]
		}
		file, isNew, err := c.diffTarget(base, diff[m[2]:m[3]], diff[m[4]:m[5]])
		if err != nil {
			return nil, err
		}
		data, _ := os.ReadFile(file)
		after, plus, minus, err := patch(string(data), diff[m[1]:end])
		if err != nil && !c.broken("drops hunks") {
			return nil, internal("%v", err)
		}
		if err == nil {
			results[file] = after
		}
		if c.broken("applies one file after the other") {
			_ = c.save(file, after)
		}
		if isNew {
			created++
		}
		added, removed = added+plus, removed+minus
	}
	for file, data := range results {
		if err := c.save(file, data); err != nil {
			return nil, err
		}
	}
	summary := fmt.Sprintf("Successfully applied diff to %s:\n• Lines added: %d\n• Lines removed: %d", path, added, removed)
	if len(files) > 1 {
		summary = fmt.Sprintf("Successfully applied multi-file diff:\n• Files created: %d\n• Files modified: %d\n• Files deleted: 0\n• Lines added: %d\n• Lines removed: %d", created, len(files)-created, added, removed)
	}
	return both(summary, summary+"\n\nUse 'undo_edit' to revert.", 0.2), nil
}

func (c *fakeCall) diffTarget(base, from, to string) (file string, isNew bool, err error) {
	name := strings.TrimPrefix(to, "b/")
	if strings.Contains(name, "..") && !c.broken("allows traversal") {
		return "", false, invalid("Path traversal detected: paths cannot contain '..'")
	}
	file = filepath.Join(base, name)
	if info, err := os.Lstat(file); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return "", false, invalid("Cannot modify symlink '%s'. Please operate on the actual file.", file)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil && !strings.HasPrefix(real, base) && !c.broken("allows traversal") {
		return "", false, invalid("Path '%s' is outside the base directory", name)
	}
	if c.rules.ignored(file) && !c.broken("does not look into diffs") {
		return "", false, internal("Access to '%s' is restricted by .gooseignore", file)
	}
	return file, from == "/dev/null", nil
}

// patch applies the hunks of one file.
func patch(data, hunks string) (after string, added, removed int, err error) {
	for _, hunk := range fakeHunk.Split(hunks, -1)[1:] {
		var before, now []string
		for line := range strings.Lines(hunk) {
			switch body := line[1:]; line[0] {
			case '+':
				now = append(now, body)
				added++
			case '-':
				before = append(before, body)
				removed++
			default:
				before, now = append(before, body), append(now, body)
			}
		}
		old := strings.Join(before, "")
		if !strings.Contains(data, old) {
			return "", 0, 0, fmt.Errorf("a hunk does not fit")
		}
		data = strings.Replace(data, old, strings.Join(now, ""), 1)
	}
	return data, added, removed, nil
}
