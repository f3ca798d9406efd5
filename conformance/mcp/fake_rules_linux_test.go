package mcp

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fakeRules are ignore rules of a directory and of what is below it.
type fakeRules struct {
	*fake
	root  string
	rules map[string][]string // of each directory that has some
}

var cachedRules = map[string]*fakeRules{}

func (f *fake) rulesOf(root string) *fakeRules {
	if r := cachedRules[root]; r != nil && f.broken("reads rules once") {
		return r
	}
	r := &fakeRules{fake: f, root: root, rules: map[string][]string{}}
	global, err := os.ReadFile(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "goose", ".gooseignore"))
	local, localErr := os.ReadFile(filepath.Join(root, ".gooseignore"))
	lines := strings.Split(string(local), "\n")
	if err == nil && !f.broken("knows no global rules") {
		lines = append(strings.Split(string(global), "\n"), lines...)
	}
	if (err != nil || f.broken("knows no global rules")) && (localErr != nil || f.broken("keeps the defaults")) {
		lines = append([]string{".env", ".env.*", "secrets.*"}, lines...)
		if f.broken("writes rules unasked") {
			_ = os.WriteFile(filepath.Join(root, ".gooseignore"), []byte(".env\n"), 0o644)
		}
	}
	r.rules[root] = lines
	if f.broken("reads rules once") {
		cachedRules[root] = r
	}
	return r
}

// ignored decides with git's meaning, as far as the checks go.
func (r *fakeRules) ignored(path string) bool {
	if r.lexical(path) {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return false
		}
		real = filepath.Join(dir, filepath.Base(path))
	}
	return !r.broken("follows links") && r.lexical(real)
}

func (r *fakeRules) lexical(path string) bool {
	rel, err := filepath.Rel(r.root, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		rel = filepath.Base(path)
	}
	parts := strings.Split(rel, "/")
	for i := range parts {
		if r.one(parts[:i+1], i < len(parts)-1) {
			return true
		}
	}
	return false
}

// one decides on one name, by the rules of the directories above it.
func (r *fakeRules) one(parts []string, dir bool) bool {
	ignored := false
	for i := range parts {
		base := filepath.Join(r.root, filepath.Join(parts[:i]...))
		lines, ok := r.rules[base]
		if !ok && !r.broken("knows no nested rules") {
			text, _ := os.ReadFile(filepath.Join(base, ".gooseignore"))
			lines = strings.Split(string(text), "\n")
		}
		for _, line := range lines {
			if m, negated := fakeMatch(line, strings.Join(parts[i:], "/"), dir); m {
				ignored = !negated
			}
		}
	}
	return ignored
}

func fakeMatch(line, name string, dir bool) (matches, negated bool) {
	if line == "" || strings.HasPrefix(line, "#") {
		return false, false
	}
	line, negated = strings.CutPrefix(line, "!")
	line = strings.TrimPrefix(line, `\`)
	line, dirOnly := strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	pattern := regexp.QuoteMeta(line)
	pattern = strings.ReplaceAll(pattern, `\*\*/`, "(.*/)?")
	pattern = strings.ReplaceAll(pattern, `\*`, "[^/]*")
	pattern = strings.ReplaceAll(pattern, `\?`, "[^/]")
	if !anchored {
		pattern = "(.*/)?" + pattern
	}
	ok, _ := regexp.MatchString("^"+pattern+"$", name)
	return ok && (dir || !dirOnly), negated
}

// guard refuses a command that names an ignored file in any way it can think of:
// it takes every word apart.
func (c *fakeCall) guard(command string) error {
	if c.broken("guards no commands") {
		return nil
	}
	if !c.broken("knows no syntax") {
		command = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(command)
	}
	separators := " \t\n;|&()<>{},`="
	if c.broken("knows no syntax") {
		separators = " "
	}
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(separators, r) })
	dirs := []string{c.dir}
	for _, w := range words {
		if info, err := os.Stat(filepath.Join(c.dir, w)); err == nil && info.IsDir() {
			dirs = append(dirs, filepath.Join(c.dir, w))
		}
	}
	for _, w := range words {
		if c.broken("refuses too much") && strings.Contains(w, "env") {
			return c.restrictedWord(w)
		}
		name := os.Expand(w, os.Getenv)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			name = filepath.Join(os.Getenv("HOME"), rest)
		}
		for _, dir := range dirs {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			found, _ := filepath.Glob(name)
			if slices.ContainsFunc(found, c.rules.ignored) {
				if c.broken("runs, then refuses") {
					_, _ = c.run(command, 0)
				}
				return c.restrictedWord(w)
			}
			name = os.Expand(w, os.Getenv)
		}
	}
	return nil
}

func (c *fakeCall) restrictedWord(w string) error {
	return internal("The command attempts to access '%s' which is restricted by .gooseignore", w)
}

// path resolves and checks the name of a file.
func (c *fakeCall) path(name string, code int) (string, error) {
	if name == "" {
		return "", invalid("missing field `path`")
	}
	if !filepath.IsAbs(name) {
		dir := c.dir
		if c.broken("resolves against its own directory") {
			dir, _ = os.Getwd()
		}
		name = filepath.Join(dir, name)
	}
	name = filepath.Clean(name)
	if c.rules.ignored(name) && !c.broken("guards no files") {
		return "", &toolError{code, "Access to '" + name + "' is restricted by .gooseignore"}
	}
	return name, nil
}

// confined refuses a path outside of the working and the temporary directory.
func (c *fakeCall) confined(given, path string) error {
	real := path
	if !c.broken("follows links out") {
		real = followed(path)
	}
	for _, root := range []string{c.dir, os.TempDir()} {
		if real == root || strings.HasPrefix(real, root+"/") || strings.HasPrefix(given, "..") && c.broken("follows dots out") {
			return nil
		}
	}
	return internal("'%s' leads to '%s', which is outside of the working directory", path, real)
}

// followed resolves links, also one that leads to nothing.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return followed(to)
	}
	if filepath.Dir(path) == path {
		return path
	}
	return filepath.Join(followed(filepath.Dir(path)), filepath.Base(path))
}
