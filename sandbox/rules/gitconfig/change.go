package gitconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A Change holds the configuration that a program inside wants for a repository.
type Change struct {
	// Old is the configuration now, nil for none, and New what it is to be.
	Old, New []byte
	// Worktree says that it is that of a single work tree (config.worktree). Other is the
	// other one of the two, as it is.
	Worktree bool
	Other    []byte
	// Made says that the repository was made inside.
	Made bool
	// Added are the remotes that were added inside.
	Added map[string]bool
	// Modules is the work tree's .gitmodules.
	Modules []byte
	// Works reports whether a path from the git directory is that of a work tree which leads back
	// to it; nil for none.
	Works func(path string) bool
}

// Accepted holds what comes of a Change.
type Accepted struct {
	// Text holds the bytes to write.
	Text []byte
	// Remotes are those that are new in it.
	Remotes []string
	// Dropped says what was left out of it; empty for nothing. Git ends well all the same, as it
	// may be in the middle of a switch.
	Dropped string
}

// Accept judges a change by each setting that is another. The error names the first one that may
// not be: git changes nothing then.
func (c Change) Accept() (Accepted, error) {
	old, err := parseStrict(c.Old)
	if err != nil {
		return Accepted{Text: c.Old, Dropped: fmt.Sprintf("git's configuration stays as it is, as it is written in a way that gander does not change (%v)", err)}, nil
	}
	next, err := parseStrict(c.New)
	if err != nil {
		return Accepted{}, fmt.Errorf("gander does not write it: %w", err)
	}
	j := judge{Change: c, old: byName(old), next: byName(next), changed: map[string]bool{}, drop: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(union(j.old, j.next))) {
		if same(j.old[name], j.next[name]) {
			continue
		}
		j.changed[name] = true
		if name == "core.filemode" && !c.Made && len(j.old[name]) == 1 { // git init sets it again
			return Accepted{Text: c.Old, Dropped: "core.filemode stays as it is, which is yours to set outside"}, nil
		}
		if err := j.setting(name); err != nil {
			return Accepted{}, err
		}
	}
	keep := func(all []Setting) []Setting {
		return slices.DeleteFunc(slices.Clone(all), func(s Setting) bool { return j.changed[s.Name()] })
	}
	if !same(keep(old), keep(next)) {
		return Accepted{}, errors.New("it has its settings in another order")
	}
	a := Accepted{Text: c.New, Remotes: j.remotes}
	if len(j.drop) > 0 { // only settings that were not there
		next = slices.DeleteFunc(next, func(s Setting) bool { return j.drop[s.Name()] })
		a.Text = Format(next)
		a.Dropped = fmt.Sprintf("%s was not set: a branch made inside has an upstream only at a remote that was there before", strings.Join(slices.Sorted(maps.Keys(j.drop)), ", "))
	}
	return a, nil
}

// parseStrict is Parse without what git itself does not write.
func parseStrict(text []byte) ([]Setting, error) {
	if i := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\ufeff' }); i >= 0 {
		return nil, fmt.Errorf("line %d has a control character", 1+bytes.Count(text[:i], []byte("\n")))
	}
	all, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if lines := bytes.Count(text, []byte("\\\n")); lines > 0 {
		return nil, errors.New("a line of it goes on after a backslash")
	}
	return all, nil
}

func byName(all []Setting) map[string][]Setting {
	out := map[string][]Setting{}
	for _, s := range all {
		out[s.Name()] = append(out[s.Name()], s)
	}
	return out
}

func union(a, b map[string][]Setting) map[string][]Setting {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// same reports whether settings are the same, in the same order, wherever they are in the file.
func same(a, b []Setting) bool {
	return slices.EqualFunc(a, b, func(x, y Setting) bool {
		x.Line, y.Line = 0, 0
		return x == y
	})
}

// judge judges the settings of a change, which are by their names.
type judge struct {
	Change
	old, next     map[string][]Setting
	changed, drop map[string]bool
	remotes       []string
}

// setting judges one that is another.
func (j *judge) setting(name string) error {
	no := fmt.Errorf("it sets %s, which is yours to set outside", name)
	now, s := j.next[name], Setting{}
	if s = slices.Concat(now, j.old[name])[0]; len(now) == 0 {
		if !j.mayGo(s) {
			return fmt.Errorf("it takes away %s, which is yours to change outside", name)
		}
		return nil
	}
	if slices.ContainsFunc(now, func(s Setting) bool { return s.Bare }) {
		return no
	}
	single := len(now) == 1
	switch s.Section {
	case "branch":
		return j.branch(s, now, no)
	case "remote":
		return j.remote(s, now, no)
	case "submodule":
		if !single || !j.submodule(s) {
			return no
		}
		return nil
	}
	if !single || s.Subsection != "" {
		return no
	}
	switch s.Section + "." + s.Key {
	case "core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse":
		return unless(isBool(s.Value), no)
	case "extensions.worktreeconfig":
		return unless(s.Value == "true" && !j.Worktree, no)
	case "core.worktree":
		return unless(j.Worktree && has(j.Other, s) || j.Made && j.Works != nil && j.Works(s.Value), no)
	case "core.repositoryformatversion":
		return unless(!j.Worktree && (s.Value == "1" || s.Value == "0" && j.Made), no)
	case "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.symlinks", "core.precomposeunicode":
		return unless(j.Made && isBool(s.Value), no)
	case "extensions.objectformat":
		return unless(j.Made && (s.Value == "sha1" || s.Value == "sha256"), no)
	}
	return no
}

func unless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

func isBool(value string) bool { return value == "true" || value == "false" }

// has reports whether a configuration has a setting with the value, and no other.
func has(text []byte, s Setting) bool {
	all, err := parseStrict(text)
	found := byName(all)[s.Name()]
	return err == nil && len(found) == 1 && found[0].Value == s.Value
}

// mayGo reports whether a setting may be taken away.
func (j *judge) mayGo(s Setting) bool {
	switch s.Section {
	case "branch":
		return s.Subsection != ""
	case "remote":
		return j.Made || j.Added[s.Subsection]
	case "submodule":
		return s.Subsection != "" && (s.Key == "active" || s.Key == "url")
	}
	switch s.Section + "." + s.Subsection + s.Key {
	case "core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse":
		return true
	case "core.worktree":
		return j.Made || !j.Worktree && has(j.Other, s)
	}
	return false
}

// reference is the name of a reference of git's, or of a remote.
var reference = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./@+=#-]*$`)

func (j *judge) branch(s Setting, now []Setting, no error) error {
	if s.Subsection == "" {
		return no
	}
	for _, s := range now {
		switch s.Key {
		case "merge":
			if !strings.HasPrefix(s.Value, "refs/") || strings.ContainsAny(s.Value, " \t\n\\:*?[^~") {
				return no
			}
		case "rebase":
			if !isBool(s.Value) && s.Value != "merges" {
				return no
			}
		case "description":
		case "remote":
			if len(now) > 1 {
				return no
			}
			if s.Value == "." || j.knows(s.Value) {
				continue
			}
			if len(j.old[s.Name()]) > 0 {
				return no
			}
			j.drop[s.Name()] = true
		default:
			return no
		}
	}
	return nil
}

// knows reports whether there is such a remote, and it was not added inside to a repository that
// was there before.
func (j *judge) knows(remote string) bool {
	all := j.old
	if j.Made {
		all = j.next
	}
	return len(all["remote."+remote+".url"]) > 0 && (j.Made || !j.Added[remote])
}

// remote judges a setting of a remote, which has to be a new one.
func (j *judge) remote(s Setting, now []Setting, no error) error {
	name := s.Subsection
	isOld := func(s Setting) bool { return s.Section == "remote" && s.Subsection == name }
	if !j.Made && !j.Added[name] && slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(j.old))...), isOld) {
		return fmt.Errorf("it changes %s, of a remote that was there before", s.Name())
	}
	if !reference.MatchString(name) || strings.Contains(name, "..") {
		return no
	}
	for _, s := range now {
		switch {
		case s.Key == "url" && (isURL(s.Value) || j.Made && isPath(s.Value)):
		case s.Key == "url":
			return fmt.Errorf("it gives %s as the address of a new remote, which is to be an https, ssh or git URL with a host", s.Value)
		case s.Key == "fetch" && j.fetches(name, s.Value):
		default:
			return no
		}
	}
	if !slices.Contains(j.remotes, name) {
		j.remotes = append(j.remotes, name)
	}
	return nil
}

// fetches reports whether a new remote may fetch so: all branches, under its own name or, in the
// middle of a change of names, that of another new one. A clone may fetch a single branch.
func (j *judge) fetches(remote, value string) bool {
	value, ok := strings.CutPrefix(value, "+refs/heads/")
	branch, to, ok2 := strings.Cut(value, ":refs/remotes/")
	under, ok3 := strings.CutSuffix(to, "/"+branch)
	return ok && ok2 && ok3 && (under == remote || j.Added[under]) && (branch == "*" || j.Made && reference.MatchString(branch))
}

func (j *judge) submodule(s Setting) bool {
	switch {
	case s.Key == "active" && s.Subsection == "":
		return j.Made && s.Value == "."
	case s.Key == "active":
		return isBool(s.Value)
	}
	if s.Key != "url" || s.Subsection == "" {
		return false
	}
	modules, err := parseStrict(j.Modules)
	named := byName(modules)[s.Name()]
	switch {
	case err != nil || len(named) > 1:
		return false
	case len(named) == 0, named[0].Value == s.Value: // git submodule add writes .gitmodules later
		return isURL(s.Value) || j.Made && isPath(s.Value)
	}
	all := j.old
	if j.Made {
		all = j.next
	}
	for _, now := range all {
		if of := now[0]; of.Section == "remote" && of.Key == "url" && len(now) == 1 && !j.Added[of.Subsection] && relativeURL(of.Value, named[0].Value) == s.Value {
			return true
		}
	}
	return j.Made && isPath(s.Value)
}

// relativeURL returns the address that git makes of one in .gitmodules which begins with ./ or ../;
// empty for any other.
func relativeURL(remote, address string) string {
	if !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../") {
		return ""
	}
	remote = strings.TrimSuffix(remote, "/")
	for {
		if rest, ok := strings.CutPrefix(address, "./"); ok {
			address = rest
			continue
		}
		rest, ok := strings.CutPrefix(address, "../")
		if !ok {
			break
		}
		i := strings.LastIndexAny(remote, "/:")
		if i < 0 || remote[i] == ':' && strings.Contains(rest, "../") {
			return ""
		}
		remote, address = remote[:i], rest
	}
	if address == "" || strings.Contains(address, "..") {
		return ""
	}
	return remote + "/" + strings.TrimSuffix(address, "/")
}

var (
	host = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)
	// scp is an address of ssh without a scheme.
	scp       = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]+:[A-Za-z0-9_~/.][^:]*$`)
	printable = regexp.MustCompile(`^[!-~]+$`)
)

// isURL reports whether an address is an https, ssh or git URL that has a host.
func isURL(address string) bool {
	if !printable.MatchString(address) || strings.Contains(address, "::") || strings.ContainsAny(address, `\"'`+"`$<>|;&") {
		return false
	}
	if !strings.Contains(address, "://") {
		return scp.MatchString(address)
	}
	u, err := url.Parse(address)
	return err == nil && slices.Contains([]string{"https", "ssh", "git"}, u.Scheme) && strings.HasPrefix(address, u.Scheme+"://") &&
		host.MatchString(u.Host) && !strings.HasPrefix(u.User.Username(), "-")
}

// isPath reports whether an address is a plain absolute path.
func isPath(address string) bool {
	address = strings.TrimPrefix(address, "file://")
	return printable.MatchString(address) && strings.HasPrefix(address, "/") && !strings.Contains(address, "::") && !strings.ContainsAny(address, `\"'`+"`$<>|;&")
}
