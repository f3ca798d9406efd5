package gitconfig

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gander.dev/gander/sandbox/rules/project"
)

// Bounds of what is read. What is beyond them is left out.
const (
	maxConfig   = 256 << 10 // bytes of one configuration
	maxCopied   = 1 << 20   // bytes of a file that it names
	maxFiles    = 64
	maxSettings = 4000
	maxValue    = 4 << 10
	maxDepth    = 10 // of files that include others, as git has it
)

// Options say whose configuration is read, and for what.
type Options struct {
	// Variable is the environment; HOME, XDG_CONFIG_HOME, GIT_CONFIG_GLOBAL and PATH count.
	Variable func(name string) string
	// Project is the directory that conditions of includeIf are about.
	Project string
	// Writable are directories that sandboxes can write: nothing is taken from them.
	Writable []string
}

// Settings holds what counts inside of a person's configuration.
type Settings struct {
	// Files has the content of what the home inside gets, by the path there, with slashes.
	Files map[string][]byte
	// Taken are the settings that count, and Left those that do not.
	Taken, Left []Origin
	// Unsigned says that signing was switched off.
	Unsigned bool
}

// SayUnsigned says what Settings.Unsigned means.
const SayUnsigned = "Git signs nothing inside, as your keys are not there: commit.gpgSign and tag.gpgSign are off. Sign outside, as with: git rebase --exec 'git commit --amend --no-edit -S' BASE."

// Origin is a setting, or a file, and where it is from.
type Origin struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Why says why it is left out, or what is different inside; empty for nothing.
	Why string `json:"why,omitempty"`
}

// String is the origin for a person.
func (o Origin) String() string {
	text := o.Name
	if o.Why != "" {
		text += ": " + o.Why
	}
	if o.Line > 0 {
		return fmt.Sprintf("%s (%s:%d)", text, o.File, o.Line)
	}
	return text
}

//go:embed allow.txt
var allowText string

// allowed maps "section" or "section.*", and a space and a key, to what the value is.
var allowed = func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(allowText) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		for _, word := range words[1:] {
			key, kind, _ := strings.Cut(word, ":")
			all[words[0]+" "+key] = kind
		}
	}
	return all
}()

// kindOf returns the kind of an allowed setting's value; false when it is not allowed.
func kindOf(s Setting) (string, bool) {
	sections := []string{s.Section}
	if s.Subsection != "" {
		sections = []string{s.Section + "." + s.Subsection, s.Section + ".*"}
	}
	for _, section := range sections {
		for _, key := range []string{s.Key, "*"} {
			if kind, ok := allowed[section+" "+key]; ok {
				return kind, true
			}
		}
	}
	return "", false
}

// Where the files are, below the home inside.
const (
	globalName = ".gitconfig"
	copiesDir  = ".config/git/taken"
)

// Read reads a person's global configuration, without running git, and chooses what counts
// inside.
func Read(o Options) Settings {
	r := &reader{o: o, home: o.Variable("HOME"), out: Settings{Files: map[string][]byte{}}}
	var all []Setting
	if file := o.Variable("GIT_CONFIG_GLOBAL"); file != "" {
		all = r.config(file, 0)
	} else if filepath.IsAbs(r.home) {
		xdg := o.Variable("XDG_CONFIG_HOME")
		if !filepath.IsAbs(xdg) {
			xdg = filepath.Join(r.home, ".config")
		}
		for _, name := range []string{"ignore", "attributes"} { // git reads them where no setting names others
			file := filepath.Join(xdg, "git", name)
			if text, err := r.read(file, maxCopied); err == nil {
				r.out.Files[".config/git/"+name] = text
				r.out.Taken = append(r.out.Taken, Origin{Name: file, File: file})
			} else if !errors.Is(err, os.ErrNotExist) {
				r.out.Left = append(r.out.Left, Origin{Name: file, File: file, Why: err.Error()})
			}
		}
		all = r.config(filepath.Join(xdg, "git", "config"), 0)
		all = append(all, r.config(filepath.Join(r.home, ".gitconfig"), 0)...)
	}
	if r.out.Unsigned {
		all = append(all, off("commit"), off("tag"))
	}
	r.out.Files[globalName] = Format(all)
	return r.out
}

// off is a section's gpgSign, switched off.
func off(section string) Setting { return Setting{Section: section, Key: "gpgsign", Value: "false"} }

type reader struct {
	o     Options
	home  string
	files int
	count int
	out   Settings
}

// config returns what counts of a file, and of those that it includes. One that is not there is
// empty.
func (r *reader) config(file string, depth int) (all []Setting) {
	text, err := r.read(file, maxConfig)
	var found []Setting
	if err == nil {
		found, err = Parse(text)
	}
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			r.out.Left = append(r.out.Left, Origin{Name: file, File: file, Why: err.Error()})
		}
		return nil
	}
	for _, s := range found {
		if r.count++; r.count > maxSettings {
			r.leave(s, file, "there are more settings than are read")
			return all
		}
		if s.Section == "include" || s.Section == "includeif" {
			all = append(all, r.include(s, file, depth)...)
			continue
		}
		if taken, why := r.choose(&s, file); taken {
			all = append(all, s)
			r.out.Taken = append(r.out.Taken, Origin{s.Name(), file, s.Line, why})
		} else {
			r.leave(s, file, why)
		}
	}
	return all
}

func (r *reader) leave(s Setting, file, why string) {
	r.out.Left = append(r.out.Left, Origin{s.Name(), file, s.Line, why})
}

// include returns what a setting includes: the settings themselves, or, under a condition that
// git has to look at inside, a setting that includes a file with them.
func (r *reader) include(s Setting, file string, depth int) []Setting {
	name, ok := r.expand(s.Value, filepath.Dir(file))
	switch {
	case s.Key != "path", !ok, s.Section == "include" && s.Subsection != "":
		r.leave(s, file, "its path is not understood")
		return nil
	case depth >= maxDepth:
		r.leave(s, file, "too many files include each other")
		return nil
	}
	if s.Section == "include" {
		return r.config(name, depth+1)
	}
	condition, why := r.condition(s.Subsection, file)
	if why != "" {
		r.leave(s, file, why)
		return nil
	}
	all := r.config(name, depth+1)
	if len(all) == 0 {
		return nil
	}
	return []Setting{{Section: "includeif", Subsection: condition, Key: "path", Value: "~/" + r.copy("config", Format(all))}}
}

// condition is a condition of includeIf as it is to be inside, or why what it includes is
// left out.
func (r *reader) condition(text, file string) (condition, why string) {
	kind, pattern, _ := strings.Cut(text, ":")
	switch {
	case kind == "onbranch", kind == "hasconfig" && strings.HasPrefix(pattern, "remote.*.url:"):
		return text, "" // both may change inside
	case kind != "gitdir" && kind != "gitdir/i":
		return "", "its condition is not understood"
	}
	switch {
	case strings.HasPrefix(pattern, "~/"):
		pattern = filepath.Join(r.home, pattern[2:]) + slash(pattern)
	case strings.HasPrefix(pattern, "./"):
		pattern = filepath.Join(filepath.Dir(file), pattern[2:]) + slash(pattern)
	case !filepath.IsAbs(pattern):
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if !r.mayMatch(pattern, kind == "gitdir/i") {
		return "", "its condition does not hold here"
	}
	return kind + ":" + pattern, ""
}

// slash is the slash that a pattern ends in, which Join takes away.
func slash(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		return "/"
	}
	return ""
}

// mayMatch reports whether a pattern is for the project's repository, or one below or above it.
func (r *reader) mayMatch(pattern string, anyCase bool) bool {
	dirs := []string{filepath.Clean(r.o.Project)}
	if real, err := filepath.EvalSymlinks(r.o.Project); err == nil {
		dirs = append(dirs, real)
	}
	literal := strings.TrimSuffix(pattern[:strings.IndexAny(pattern+"*", "*?[\\")], "/")
	matches := wild(pattern, anyCase)
	for _, dir := range dirs {
		if project.Below(literal, dir) && literal != "" {
			return true
		}
		for at := dir; ; at = filepath.Dir(at) {
			if matches(at + "/.git") {
				return true
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		if to, err := gitFile(dir); err == nil && matches(to) {
			return true
		}
	}
	return false
}

// gitFile returns the git directory that a directory's .git names as a file.
func gitFile(dir string) (string, error) {
	text, err := project.ReadRegular(filepath.Join(dir, ".git"), maxValue)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok {
		return "", errors.New("not a file that leads to a git directory")
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return filepath.EvalSymlinks(to)
}

// wild is git's matching of paths (wildmatch with WM_PATHNAME), as far as people use it.
func wild(pattern string, anyCase bool) func(string) bool {
	var b strings.Builder
	if anyCase {
		b.WriteString("(?i)")
	}
	b.WriteString("^")
	for rest := pattern; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(.*/)?")
			rest = rest[3:]
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			rest = rest[2:]
		case rest[0] == '*':
			b.WriteString("[^/]*")
			rest = rest[1:]
		case rest[0] == '?':
			b.WriteString("[^/]")
			rest = rest[1:]
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			rest = rest[1:]
		}
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil {
		return func(string) bool { return false }
	}
	return re.MatchString
}

// choose reports whether a setting counts inside, and makes its value what it is there. why
// is why it does not, or what is different.
func (r *reader) choose(s *Setting, file string) (taken bool, why string) {
	if (s.Section == "commit" || s.Section == "tag") && s.Subsection == "" && (s.Key == "gpgsign" || s.Key == "forcesignannotated") {
		if !isFalse(*s) {
			r.out.Unsigned = true
		}
		return false, "nothing is signed inside"
	}
	kind, ok := kindOf(*s)
	switch {
	case !ok:
		return false, "it is not among the settings that count inside"
	case len(s.Value) > maxValue:
		return false, "it is too long"
	}
	switch kind {
	case "file":
		return r.chooseFile(s, file)
	case "program":
		if program, _ := firstWord(s.Value); !r.isInside(program) {
			return false, "its program is not inside"
		}
	case "filter":
		return r.chooseFilter(s)
	case "url":
		if !isHarmless(s.Subsection) || !isHarmlessPrefix(s.Value) {
			return false, "it is no https, ssh or git address without a password"
		}
	}
	if s.Section == "alias" && strings.HasPrefix(strings.TrimLeft(s.Value, space), "!") {
		return false, "it runs a program"
	}
	return true, ""
}

// isFalse reports whether git takes the value for false.
func isFalse(s Setting) bool {
	return !s.Bare && slices.Contains([]string{"", "false", "no", "off", "0"}, strings.ToLower(s.Value))
}

// chooseFile takes the content of a file.
func (r *reader) chooseFile(s *Setting, file string) (bool, string) {
	name, ok := r.expand(s.Value, "")
	if !ok {
		return false, "its path is neither absolute nor in your home"
	}
	text, err := r.read(name, maxCopied)
	if err != nil {
		return false, err.Error()
	}
	s.Value = "~/" + r.copy(path.Base(filepath.ToSlash(name)), text)
	return true, ""
}

// chooseFilter takes a filter. Without its program it fails by the name that is missing.
func (r *reader) chooseFilter(s *Setting) (bool, string) {
	program, ok := firstWord(s.Value)
	if r.isInside(program) {
		return true, ""
	}
	if !ok {
		return false, "its program is not known"
	}
	s.Value = "/not-inside/" + path.Base(program)
	return true, "its program is not inside, so that it fails"
}

// copy gives the home inside a file and returns its path there.
func (r *reader) copy(base string, text []byte) string {
	name := fmt.Sprintf("%s/%d-%s", copiesDir, len(r.out.Files), base)
	r.out.Files[name] = text
	return name
}

// expand is the path that a value names; relative ones are taken from dir.
func (r *reader) expand(value, dir string) (string, bool) {
	rest, ok := strings.CutPrefix(value, "~/")
	switch {
	case ok && filepath.IsAbs(r.home):
		return filepath.Join(r.home, rest), true
	case filepath.IsAbs(value):
		return filepath.Clean(value), true
	case value == "", dir == "", strings.ContainsAny(value[:1], "~%:"):
		return "", false
	}
	return filepath.Join(dir, value), true
}

// read reads a file of the person's: a regular one that no sandbox can write.
func (r *reader) read(file string, most int64) ([]byte, error) {
	if r.files++; r.files > maxFiles {
		return nil, errors.New("there are more files than are read")
	}
	return project.ReadOwn(file, r.o.Writable, most)
}

// word is a program's name that a shell takes as it is.
var word = regexp.MustCompile(`^[A-Za-z0-9_./~+-]+$`)

// firstWord is the program that a command begins with.
func firstWord(command string) (string, bool) {
	command = strings.TrimLeft(command, space)
	for _, quote := range []string{`"`, `'`} {
		if rest, ok := strings.CutPrefix(command, quote); ok {
			program, _, ok := strings.Cut(rest, quote)
			return program, ok && word.MatchString(strings.ReplaceAll(program, " ", "_"))
		}
	}
	if i := strings.IndexAny(command, space); i >= 0 {
		command = command[:i]
	}
	return command, word.MatchString(command)
}

// isInside reports whether a program is in the directories of the system, which sandboxes show.
func (r *reader) isInside(program string) bool {
	names := []string{program}
	if program != "" && !strings.Contains(program, "/") {
		names = nil
		for _, dir := range append([]string{"/usr/local/bin", "/usr/bin", "/bin"}, filepath.SplitList(r.o.Variable("PATH"))...) {
			names = append(names, path.Join(dir, program))
		}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		isSystem := func(dir string) bool { return project.Below(path.Clean(name), dir) }
		info, err := os.Stat(name)
		return slices.ContainsFunc(project.SystemDirs(), isSystem) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

var (
	withHost = regexp.MustCompile(`^(https?|git|ssh|git\+ssh)://([^@/?#]*@)?[^@/?#:]+(:[0-9]+)?(/[^@?#]*)?$`)
	scpLike  = regexp.MustCompile(`^([A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+:[^@?#]*$`)
)

// isHarmless reports whether an address names a host, or the beginning of its paths, and has
// nothing secret.
func isHarmless(address string) bool {
	if m := withHost.FindStringSubmatch(address); m != nil {
		return m[2] == "" || strings.HasSuffix(m[1], "ssh") && !strings.Contains(m[2], ":")
	}
	return scpLike.MatchString(address) && !strings.Contains(address, "://") && !strings.Contains(address, "::")
}

// isHarmlessPrefix is isHarmless, also for a word of the person's own that stands for one.
func isHarmlessPrefix(text string) bool { return isHarmless(text) || !strings.ContainsAny(text, "@?#") }
