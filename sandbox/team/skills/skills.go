// Package skills finds and keeps Agent Skills: folders with a file SKILL.md, which say how
// something is done, and may have scripts and other files beside it. Nothing of a skill
// runs on the host.
package skills

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"gander.dev/gander/sandbox/rules/project"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// The limits of the specification, of a skill and of a root.
const (
	maxText        = 64 << 10 // bytes of SKILL.md
	maxDescription = 1024     // characters
	maxSkills      = 100      // of one root that are read
)

var nameRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// validName reports whether a name, also of a folder, is one that the specification permits.
func validName(name string) bool { return len(name) <= 64 && nameRule.MatchString(name) }

// A Skill is one folder with a SKILL.md that can be used.
type Skill struct {
	// ID is the folder's name, by which agents find it.
	ID            string `json:"id"`
	Name          string `json:"name"`
	Description   string `json:"description"`
	License       string `json:"license,omitempty"`
	Compatibility string `json:"compatibility,omitempty"`
	// AllowedTools are those that the skill wishes to use without a question. They are shown,
	// and not granted.
	AllowedTools string `json:"allowedTools,omitempty"`
	// Dir is the folder without links in its path.
	Dir string `json:"dir"`
	// Source says to whom it belongs: a Root's.
	Source string `json:"source"`
	// Home is the folder in the home of a sandbox that gets a link to it: a Root's.
	Home string `json:"-"`
}

// A Root is a folder of skills.
type Root struct {
	Dir string
	// Folders, if there are any, are the skills themselves.
	Folders []string
	Source  string
	// Home names the folder for links to its skills, below the home of a sandbox.
	Home string
}

// A Problem says why a folder is no skill that can be used.
type Problem struct {
	Dir    string `json:"dir"`
	Reason string `json:"reason"`
}

func (p Problem) String() string { return p.Dir + ": " + p.Reason }

// Found holds the skills of several roots, sorted by id.
type Found struct {
	Skills []Skill `json:"skills"`
	// Shadowed are skills of later roots whose id an earlier one has.
	Shadowed []Skill   `json:"shadowed"`
	Problems []Problem `json:"problems"`
}

// Find reads the skills of roots; the first root that has an id wins. Links are followed, but
// not out of directories that a sandbox can write, and a skill in such a directory is none.
func Find(roots []Root, writable ...string) Found {
	var f Found
	for _, root := range roots {
		f.read(root, writable)
	}
	byID := func(a, b Skill) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(f.Skills, byID)
	slices.SortFunc(f.Shadowed, byID)
	return f
}

func (f *Found) read(root Root, writable []string) {
	folders, err := root.folders()
	if err != nil {
		f.Problems = append(f.Problems, Problem{root.Dir, err.Error()})
	}
	for i, dir := range folders {
		if i == maxSkills {
			f.Problems = append(f.Problems, Problem{root.Dir, fmt.Sprintf("there are more than %d skills; those from %s on are left out", maxSkills, filepath.Base(dir))})
			return
		}
		s, err := Read(dir, writable...)
		if err != nil {
			f.Problems = append(f.Problems, Problem{dir, err.Error()})
			continue
		}
		s.Source, s.Home = root.Source, root.Home
		if slices.ContainsFunc(f.Skills, func(other Skill) bool { return other.ID == s.ID }) {
			f.Shadowed = append(f.Shadowed, s)
		} else {
			f.Skills = append(f.Skills, s)
		}
	}
}

// folders returns the folders of a root that may be skills.
func (r Root) folders() ([]string, error) {
	if r.Folders != nil {
		return r.Folders, nil
	}
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		if dir := filepath.Join(r.Dir, e.Name()); !strings.HasPrefix(e.Name(), ".") && isFolder(dir) {
			all = append(all, dir)
		}
	}
	return all, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Read reads the skill of a folder.
func Read(dir string, writable ...string) (Skill, error) {
	id := filepath.Base(dir)
	if !validName(id) {
		return Skill{}, errors.New("the folder's name is to have small letters, digits and dashes, 64 at most")
	}
	real, err := project.Resolve(dir, writable)
	if err != nil {
		return Skill{}, err
	}
	for _, at := range writable {
		if at, err := filepath.EvalSymlinks(at); err == nil && at != "" && project.Below(real, at) {
			return Skill{}, fmt.Errorf("it is in %s, which sandboxes can write", at)
		}
	}
	text, err := readFile(filepath.Join(real, File))
	if err != nil {
		return Skill{}, err
	}
	s, err := Parse(text)
	if err != nil {
		return Skill{}, err
	}
	s.ID, s.Name, s.Dir = id, cmp.Or(s.Name, id), real
	return s, nil
}

// readFile reads a SKILL.md, which has to be a regular file.
func readFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s in it", File)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its %s is no regular file", File)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("its %s is larger than %d KiB", File, maxText>>10)
	}
	return text, err
}

// Parse reads the front matter of a SKILL.md.
func Parse(text []byte) (Skill, error) {
	front, ok := frontMatter(text)
	if !ok {
		return Skill{}, fmt.Errorf(`its %s does not begin with front matter: a line "---", lines as "description: …", and a line "---"`, File)
	}
	if !utf8.Valid(front) {
		return Skill{}, fmt.Errorf("the front matter of its %s is not UTF-8", File)
	}
	var m struct {
		Name          string `yaml:"name"`
		Description   string `yaml:"description"`
		License       string `yaml:"license"`
		Compatibility string `yaml:"compatibility"`
		AllowedTools  any    `yaml:"allowed-tools"`
	}
	if err := yaml.Unmarshal(front, &m); err != nil { // as people write it: with a colon in a text, say
		m.Name, m.Description, m.License = line(front, "name"), line(front, "description"), line(front, "license")
		if m.Description == "" {
			return Skill{}, fmt.Errorf("the front matter of its %s: %w", File, err)
		}
	}
	s := Skill{
		Name: clean(m.Name), Description: clean(m.Description), License: clean(m.License), Compatibility: clean(m.Compatibility),
	}
	if m.AllowedTools != nil {
		s.AllowedTools = clean(strings.Trim(fmt.Sprint(m.AllowedTools), "[]"))
	}
	switch n := utf8.RuneCountInString(s.Description); {
	case n == 0:
		return Skill{}, fmt.Errorf("its %s has no description, by which agents decide whether to read it", File)
	case n > maxDescription:
		return Skill{}, fmt.Errorf("the description in its %s has %d characters; %d may be", File, n, maxDescription)
	case s.Name != "" && !validName(s.Name):
		return Skill{}, fmt.Errorf("the name %q in its %s is to have small letters, digits and dashes, 64 at most", shorten(s.Name), File)
	}
	return s, nil
}

// frontMatter returns what is between the fences at a text's beginning.
func frontMatter(text []byte) ([]byte, bool) {
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil, false
	}
	if front, ok := bytes.CutPrefix(rest, []byte("---\n")); ok {
		return front[:0], true
	}
	front, _, ok := bytes.Cut(rest, []byte("\n---\n"))
	if !ok {
		front, ok = bytes.CutSuffix(rest, []byte("\n---"))
	}
	return front, ok
}

// line returns the value of a key as it stands in its line.
func line(front []byte, key string) string {
	for l := range strings.Lines(string(front)) {
		if value, ok := strings.CutPrefix(l, key+":"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// clean makes one line of printable characters of a text.
func clean(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)), " ")
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 70 {
		return string(r[:70]) + "…"
	}
	return s
}

// Fields returns the texts that keys have in a file's front matter, and what follows it. Without
// front matter all of the file follows.
func Fields(text []byte, keys ...string) (map[string]string, string) {
	found := map[string]string{}
	front, ok := frontMatter(text)
	if !ok || !utf8.Valid(front) {
		return found, string(text)
	}
	var all map[string]any
	bad := yaml.Unmarshal(front, &all) != nil
	for _, key := range keys {
		if value, is := all[key].(string); is {
			found[key] = clean(value)
		} else if bad {
			found[key] = clean(line(front, key))
		}
	}
	plain := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	_, body, _ := strings.Cut(strings.TrimPrefix(plain, "---\n"+string(front)), "---")
	return found, strings.TrimPrefix(body, "\n")
}
