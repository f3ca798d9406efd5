package guard

import (
	"path"
	"path/filepath"
	"strings"
)

// scan takes text for words between blanks and signs and refuses it when one of
// them is a hidden file. It is stricter than the reading of a shell's language,
// and for what that cannot be applied to: code of other languages, the shells of
// Windows, and lines that do not parse.
func (c *checker) scan(text, dir string) error {
	c.lists = maxScans
	text = c.expandKnown(text)
	seen := map[string]bool{}
	for _, spelling := range []string{text, strings.NewReplacer(`"`, "", "'", "", "`", "", "^", "", `\`, "").Replace(text), strings.NewReplacer(`\`, "/", "^", "", "`", "").Replace(text)} {
		for word := range strings.FieldsFuncSeq(spelling, isSign) {
			if seen[word] || len(word) > 4096 {
				continue
			}
			seen[word] = true
			if err := c.word(word, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanAll scans for every directory that a script may be in.
func (c *checker) scanAll(text string, st *state) error {
	for _, dir := range append(st.seen, st.dirs...) {
		if err := c.scan(text, dir); err != nil {
			return err
		}
	}
	return nil
}

func isSign(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"()<>|&;{}$!`", r) }

// expandKnown replaces the home directory's names, in the spellings of all shells.
func (c *checker) expandKnown(text string) string {
	if c.o.HomeDir == "" {
		return text
	}
	home := c.o.HomeDir
	return strings.NewReplacer("${HOME}", home, "$HOME", home, "%USERPROFILE%", home, "$env:USERPROFILE", home, "$env:HOME", home).Replace(text)
}

func (c *checker) word(word, dir string) error {
	for _, name := range append(pieces(word), strings.Trim(word, ",.:[]")) {
		if abs, ok := c.exists(dir, name); ok && (!isBare(name) || !isDir(abs)) && c.hidden(abs) {
			return &Refused{Arg: name}
		}
		if err := c.glob(name, dir); err != nil {
			return err
		}
	}
	return nil
}

// glob looks at the files that a pattern in the last component matches.
func (c *checker) glob(pattern, dir string) error {
	if !strings.ContainsAny(pattern, "*?[") {
		return nil
	}
	parent, last := path.Split(filepath.ToSlash(pattern))
	abs, ok := c.abs(dir, parent+".")
	if !ok {
		return nil
	}
	c.entries = maxNames
	entries, err := c.list(abs)
	if err != nil {
		return nil // there is nothing to be read
	}
	for _, e := range entries {
		if ok, err := path.Match(last, e.Name()); err != nil || !ok || e.Name()[0] == '.' && last[0] != '.' {
			continue
		}
		if err := c.touch(abs, e.Name()); err != nil {
			return err
		}
	}
	return nil
}
