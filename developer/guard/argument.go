package guard

import (
	"os"
	"path/filepath"
	"strings"
)

// A place is where an argument stands.
type place struct {
	c       *checker
	dir     string // that names in it are relative to
	program string // that gets it
	verb    bool   // it is the first, and that is a verb or target for the program
}

// argument refuses an argument when it, or a part of it that programs take for a
// name, is a hidden file that exists.
func (c *checker) argument(text string, p place) error {
	if c.words--; c.words < 0 {
		return errBounds
	}
	if strings.Contains(text, unknown) {
		return p.partly(text)
	}
	for _, name := range pieces(text) {
		if err := p.name(name, name == text); err != nil {
			return err
		}
	}
	return nil
}

// name refuses one name; whole says that it is all of the argument.
func (p place) name(name string, whole bool) error {
	abs, ok := p.c.exists(p.dir, name)
	if !ok {
		return nil
	}
	if isRules(abs) && !harmless[p.program] {
		return &Refused{Arg: name}
	}
	if isBare(name) && (whole && p.verb || isDir(abs) && !fileCommands[p.program]) {
		return nil
	}
	return p.c.touch(p.dir, name)
}

// isBare says that a word need not be a path.
func isBare(word string) bool { return !strings.ContainsAny(word, `/\.~*?[`) }

// pieces are the parts of an argument that may be names: "if=.env", "@.env",
// "--file=.env", "-f.env", "HEAD:.env", "a,.env".
func pieces(text string) []string {
	all := []string{text}
	bounds := []int{-1}
	for i := range len(text) {
		if strings.IndexByte("=:@,+", text[i]) >= 0 && len(bounds) < 16 {
			bounds = append(bounds, i)
		}
	}
	if len(bounds) > 1 {
		bounds = append(bounds, len(text))
		for a := range bounds {
			for _, b := range bounds[a+1:] {
				if piece := text[bounds[a]+1 : b]; piece != "" && piece != text {
					all = append(all, piece)
				}
			}
		}
	}
	if strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") {
		for i := 2; i < min(len(text), 8); i++ {
			all = append(all, text[i:])
		}
	}
	if _, path, ok := strings.Cut(text, "file://"); ok {
		all = append(all, path)
	}
	return all
}

// partly refuses an argument of which only a part is known, when every file that
// it could be is hidden.
func (p place) partly(text string) error {
	last := strings.LastIndex(text, unknown) + len(unknown)
	head, tail := text[:strings.Index(text, unknown)], text[last:]
	if name, ok := strings.CutPrefix(tail, "/"); ok {
		return p.somewhere(name)
	}
	slash := strings.LastIndex(head, "/") + 1
	if prefix := head[slash:]; len(prefix) >= 2 && !strings.Contains(tail, "/") && strings.Count(text, "/") == strings.Count(head, "/") {
		return p.beginning(head[:slash], prefix, tail)
	}
	return nil
}

// somewhere looks for a name in the directories that a command may mean.
func (p place) somewhere(name string) error {
	dirs := []string{p.dir, p.c.o.WorkingDir, p.c.o.HomeDir}
	for d := p.c.o.WorkingDir; d != filepath.Dir(d); d = filepath.Dir(d) {
		dirs = append(dirs, d)
	}
	for _, d := range dirs {
		if d == "" {
			continue
		}
		if err := p.c.touch(d, name); err != nil {
			return err
		}
	}
	return nil
}

// beginning looks for the names in a directory that begin and end as known.
func (p place) beginning(dir, prefix, tail string) error {
	abs, ok := p.c.abs(p.dir, dir+".")
	if !ok {
		return nil
	}
	entries, err := p.c.list(abs)
	if err != nil {
		return nil // there is nothing to be read
	}
	found := ""
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), tail) {
			continue
		}
		if !p.c.hidden(filepath.Join(abs, e.Name())) {
			return nil // it may as well be this one
		}
		found = dir + e.Name()
	}
	if found == "" {
		return nil
	}
	return &Refused{Arg: strings.TrimPrefix(found, "."+string(os.PathSeparator))}
}
