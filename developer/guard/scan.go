package guard

import (
	"path"
	"path/filepath"
	"strings"
)

// scan takes text for words between blanks and signs and refuses it when one of them is a
// hidden file: code of other languages, lines for the shells of Windows, and lines that
// do not parse.
func (c *checker) scan(text string) error {
	text = c.expandHome(text)
	seen := map[string]bool{}
	for _, spelling := range []string{text, strings.NewReplacer(`"`, "", "'", "", "`", "", "^", "", `\`, "").Replace(text), strings.NewReplacer(`\`, "/", "^", "", "`", "").Replace(text)} {
		for word := range strings.FieldsFuncSeq(spelling, isSign) {
			if seen[word] || len(word) > 4096 {
				continue
			}
			if c.words--; c.words < 0 {
				return nil
			}
			seen[word] = true
			if err := c.word(word); err != nil {
				return err
			}
		}
	}
	return nil
}

func isSign(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"()<>|&;{}$!`", r) }

// expandHome replaces the home directory's names, in the spellings of all shells.
func (c *checker) expandHome(text string) string {
	if c.o.HomeDir == "" {
		return text
	}
	home := c.o.HomeDir
	return strings.NewReplacer("${HOME}", home, "$HOME", home, "%USERPROFILE%", home, "$env:USERPROFILE", home, "$env:HOME", home).Replace(text)
}

func (c *checker) word(word string) error {
	for _, name := range []string{word, strings.Trim(word, ",.:[]")} {
		if err := c.touch(name, "cat"); err != nil {
			return err
		}
		if err := c.glob(name); err != nil {
			return err
		}
	}
	return nil
}

// glob looks at the files that a pattern in the last component matches.
func (c *checker) glob(pattern string) error {
	if !strings.ContainsAny(pattern, "*?[") {
		return nil
	}
	parent, last := path.Split(filepath.ToSlash(pattern))
	abs, ok := c.abs(c.o.WorkingDir, parent+".")
	if !ok {
		return nil
	}
	entries, err := c.list(abs)
	if err != nil {
		return nil // there is nothing to be read
	}
	for _, e := range entries {
		if ok, err := path.Match(last, e.Name()); err != nil || !ok || e.Name()[0] == '.' && last[0] != '.' {
			continue
		}
		if err := c.touch(filepath.Join(parent, e.Name()), "cat"); err != nil {
			return err
		}
	}
	return nil
}
