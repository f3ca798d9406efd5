package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Pattern is a file or directory of a project, with all that is below it. Without a
// slash it is a name at any depth (".vscode"); with one in the middle it is a path
// at any depth (".github/workflows"), with one in front a path from the top
// ("/deploy/keys"). "*", "?" and "[…]" match within a name. Case does not count.
type Pattern struct {
	text     string
	names    []string // folded
	anchored bool
}

// ParsePattern reads a pattern.
func ParsePattern(text string) (Pattern, error) {
	rest, anchored := strings.CutPrefix(strings.TrimSuffix(strings.TrimSuffix(text, "/**"), "/"), "/")
	rest = strings.TrimPrefix(rest, "**/")
	p := Pattern{text: text, anchored: anchored}
	for name := range strings.SplitSeq(rest, "/") {
		if _, err := path.Match(name, ""); err != nil || name == "" || name == "." || name == ".." || strings.Contains(name, "**") {
			return p, fmt.Errorf("%q is not a pattern for files of the project; write a name (%q), a path (%q) or a path from its top (%q)",
				text, ".vscode", ".github/workflows", "/deploy/keys")
		}
		p.names = append(p.names, fold(name))
	}
	return p, nil
}

// covers reports whether the path, as folded names, is the pattern's or below it.
func (p *Pattern) covers(names []string) bool {
	for start := range names {
		if p.begins(names[start:]) {
			return true
		}
		if p.anchored {
			break
		}
	}
	return false
}

func (p *Pattern) begins(names []string) bool {
	if len(names) < len(p.names) {
		return false
	}
	for i, name := range p.names {
		if !matches(name, names[i]) {
			return false
		}
	}
	return true
}

// Rule is why a file is protected.
type Rule struct {
	// Pattern is what it matches, and Group the group that has it, without "@"; empty
	// for a pattern of Writes.Protect.
	Pattern, Group string
	// Why says what a write would do.
	Why string
	// Fixed says that no policy allows it.
	Fixed bool
}

// Name is the rule in a few words, for a person.
func (r Rule) Name() string {
	if r.Group == "" {
		return r.Pattern
	}
	return r.Pattern + " of @" + r.Group
}

// Entry is what Writes.Allow needs to allow it: the pattern, or the group where
// there is no pattern for it.
func (r Rule) Entry() string {
	if r.Group == "git" {
		return "@git"
	}
	return r.Pattern
}

// Protection judges the files of a project's tree. It does not change and is safe
// for concurrent use.
type Protection struct {
	rules   []protected      // the fixed ones first
	literal map[string][]int // rules by their first name, where that is one
	wild    []int            // and the others
	allow   []Pattern
	open    []Pattern // files that run nothing
	git     bool
	gitDirs [][]string
	tops    [][]string // of work trees
}

type protected struct {
	Pattern
	rule Rule
}

// Groups are the names of the groups that are protected.
func (w Writes) Groups() []string {
	var names []string
	for _, g := range Groups() {
		if (g.Default || slices.Contains(w.Protect, "@"+g.Name)) && !slices.Contains(w.Allow, "@"+g.Name) {
			names = append(names, g.Name)
		}
	}
	return names
}

// GitPlaces are what git uses in a tree although the names do not say so, by paths
// relative to its top.
type GitPlaces struct {
	// Dirs are git directories whose names do not say so; "" is the top itself.
	Dirs []string
	// Works are the tops of work trees besides that of the tree.
	Works []string
	// Files are programs, configuration and directories of hooks that git's
	// configuration names. Some need not be there.
	Files []string
	// Linked are what closed and protected names lead to as links, whoever uses it.
	Linked []string
	// Beyond are patterns for what is protected in a directory, where a link in its place
	// leads to: see [Protection.Inside] and [Anchor].
	Beyond []string
}

// Anchor is the pattern for what others match in a directory of the tree.
func Anchor(dir, pattern string) string {
	return path.Join("/", strings.Map(literally, dir), pattern)
}

// NewProtection compiles Writes for a tree.
func NewProtection(w Writes, git GitPlaces) (*Protection, error) {
	p := &Protection{literal: map[string][]int{}}
	for _, text := range Always() {
		why := "it decides what the sandbox permits"
		if strings.ContainsAny(text, meta) {
			why = "an undo puts it back"
		}
		if err := p.protect(text, Rule{Pattern: text, Why: why, Fixed: true}); err != nil {
			return nil, err
		}
	}
	for _, text := range w.Protect {
		if strings.HasPrefix(text, "@") {
			continue
		}
		if err := p.protect(text, Rule{Pattern: text, Why: "the policy protects it"}); err != nil {
			return nil, err
		}
	}
	for _, text := range append(slices.Clone(w.Allow), w.Protect...) {
		if err := CheckEntry(text); err != nil {
			return nil, err
		}
	}
	for _, text := range w.Allow {
		if pattern, err := ParsePattern(text); err == nil && !strings.HasPrefix(text, "@") {
			p.allow = append(p.allow, pattern)
		}
	}
	for _, g := range Groups() {
		if !slices.Contains(w.Groups(), g.Name) {
			continue
		}
		p.git = p.git || g.Name == "git"
		for _, text := range g.Patterns {
			if err := p.protect(text, Rule{Pattern: text, Group: g.Name, Why: g.Why}); err != nil {
				return nil, err
			}
		}
		for _, text := range g.Open {
			pattern, err := ParsePattern(text)
			if err != nil {
				return nil, err
			}
			p.open = append(p.open, pattern)
		}
	}
	p.protectFiles(git.Files, "git's configuration names it")
	p.protectFiles(git.Linked, "a link at a closed or protected name leads to it")
	for _, text := range git.Beyond {
		if err := p.protect(text, Rule{Pattern: text, Why: "a link leads to it, and by that name it is protected"}); err != nil {
			return nil, err
		}
	}
	for _, dir := range git.Dirs {
		p.gitDirs = append(p.gitDirs, foldAll(dir))
	}
	for _, dir := range append([]string{""}, git.Works...) {
		if !slices.Contains(git.Dirs, dir) {
			p.tops = append(p.tops, foldAll(dir))
		}
	}
	return p, nil
}

// meta are the characters that make a name more than itself.
const meta = `*?[\`

// literally takes the meaning from a character of a name.
func literally(r rune) rune {
	if strings.ContainsRune(meta, r) {
		return '?'
	}
	return r
}

// matches is path.Match, quicker for what patterns mostly are.
func matches(pattern, name string) bool {
	if pattern != "" && name != "" && pattern[0] != name[0] && strings.IndexByte(meta, pattern[0]) < 0 {
		return false
	}
	head, tail, star := strings.Cut(pattern, "*")
	switch {
	case strings.ContainsAny(head, meta), strings.ContainsAny(tail, meta):
		ok, _ := path.Match(pattern, name)
		return ok
	case star:
		return len(name) >= len(head)+len(tail) && strings.HasPrefix(name, head) && strings.HasSuffix(name, tail)
	}
	return pattern == name
}

// CheckEntry fails for what cannot be an entry of Writes.
func CheckEntry(text string) error {
	name, group := strings.CutPrefix(text, "@")
	if !group {
		_, err := ParsePattern(text)
		return err
	}
	var names []string
	for _, g := range Groups() {
		if g.Name == name {
			return nil
		}
		names = append(names, "@"+g.Name)
	}
	return fmt.Errorf("there is no group %q of protected files; there are %s", text, strings.Join(names, ", "))
}

func (p *Protection) protect(text string, r Rule) error {
	pattern, err := ParsePattern(text)
	if err != nil {
		return err
	}
	if first := pattern.names[0]; strings.ContainsAny(first, meta) {
		p.wild = append(p.wild, len(p.rules))
	} else {
		p.literal[first] = append(p.literal[first], len(p.rules))
	}
	p.rules = append(p.rules, protected{pattern, r})
	return nil
}

// protectFiles protects files by their paths.
func (p *Protection) protectFiles(rels []string, why string) {
	for _, rel := range rels {
		text := Anchor(rel, "")
		_ = p.protect(text, Rule{Pattern: text, Why: why}) // fails for no file's name
	}
}

// Protects reports whether nothing inside may write, make, replace, rename or
// remove an entry of the tree, and why. rel is slash-separated, relative to the top.
func (p *Protection) Protects(rel string) (Rule, bool) {
	names := foldAll(rel)
	allowed := slices.ContainsFunc(p.allow, func(a Pattern) bool { return a.covers(names) })
	if i := p.match(names, allowed); i >= 0 {
		return p.rules[i].rule, true
	}
	if p.git && !allowed {
		if p.isHead(names) {
			return Rule{Pattern: "HEAD", Group: "git", Why: "git takes the directory for a repository by it, where its own is broken"}, true
		}
		if name := p.gitEntry(names); name != "" {
			return Rule{Pattern: name, Group: "git", Why: Groups()[0].Why}, true
		}
	}
	return Rule{}, false
}

// holds reports whether a rule that covers a path protects it, too.
func (r *protected) holds(allowed bool, p *Protection, names []string) bool {
	switch {
	case r.rule.Fixed:
		return true
	case r.rule.Group == "" || r.rule.Group == "git":
		return !allowed
	}
	return !allowed && !isDependency(names) && !p.runsNothing(names)
}

// runsNothing reports whether a path is that of a file which groups leave open.
func (p *Protection) runsNothing(names []string) bool {
	return slices.ContainsFunc(p.open, func(o Pattern) bool {
		return len(names) >= len(o.names) && o.begins(names[len(names)-len(o.names):])
	})
}

// holdsOpen reports whether a path is that of a directory for such files.
func (p *Protection) holdsOpen(names []string) bool {
	return slices.ContainsFunc(p.open, func(o Pattern) bool { return o.leads(names, 1) })
}

// match is the first rule that covers a path and holds for it; -1 without one. One that
// does not hold says nothing against the others.
func (p *Protection) match(names []string, allowed bool) int {
	found := -1
	try := func(start int, rules []int) {
		for _, i := range rules {
			if (found < 0 || i < found) && (start == 0 || !p.rules[i].anchored) && p.rules[i].begins(names[start:]) && p.rules[i].holds(allowed, p, names) {
				found = i
			}
		}
	}
	for start, name := range names {
		try(start, p.literal[name])
		try(start, p.wild)
	}
	return found
}

// MayMove reports whether a directory may be moved from one path of the tree to
// another: not when the names above it would make something of what is in it that
// could not have been written there. It does not look at what there is, for that
// may change while the directory moves.
func (p *Protection) MayMove(from, to string) bool {
	was, becomes := foldAll(from), foldAll(to)
	for _, names := range [][]string{was, becomes} {
		if p.git && p.inModules(names) {
			return false
		}
		for i := range p.rules {
			if r := &p.rules[i]; r.leads(names, 1) && !r.spares(names) {
				return false
			}
		}
	}
	if p.git && !p.linkless(was) && p.linkless(becomes) {
		return false // it may have links
	}
	return p.free(becomes) || !p.free(was) && !slices.ContainsFunc(p.allow, func(a Pattern) bool { return a.leads(was, 1) })
}

// MayLink reports whether a symbolic link may be made at a path: not where what is
// protected below it would be the agent's then, nor where git takes a directory for one of
// its own, or writes to what the link leads to.
func (p *Protection) MayLink(rel string) bool {
	names := foldAll(rel)
	if p.git && (p.inModules(names) || p.linkless(names[:max(len(names)-1, 0)])) {
		return false
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.leads(names, r.named()) && !r.spares(names) {
			return false
		}
	}
	return true
}

// Inside are patterns for what is protected below a path that is not protected itself, from
// there; false where all is that git writes there.
func (p *Protection) Inside(rel string) (patterns []string, some bool) {
	names := foldAll(rel)
	if p.git && (p.inModules(names) || p.linkless(names[:max(len(names)-1, 0)])) {
		return nil, false
	}
	for i := range p.rules {
		r := &p.rules[i]
		for _, rest := range r.ahead(names, r.named()) {
			isAllowed := func(a Pattern) bool { return a.covers(slices.Concat(names, rest)) }
			if !r.spares(names) && !slices.ContainsFunc(p.allow, isAllowed) {
				patterns = append(patterns, path.Join(rest...))
			}
		}
	}
	return patterns, true
}

// spares reports whether the rule is not about what is in a path: those of a group, but
// git's, are not about dependencies.
func (r *protected) spares(names []string) bool {
	return r.rule.Group != "" && r.rule.Group != "git" && isDependency(names)
}

// free reports whether files below a path may have names that are protected elsewhere.
func (p *Protection) free(names []string) bool {
	return isDependency(names) || slices.ContainsFunc(p.allow, func(a Pattern) bool { return a.covers(names) })
}

// IsDependency reports whether a path of a project is in a directory of other people's
// packages.
func IsDependency(rel string) bool { return isDependency(foldAll(rel)) }

// isDependency reports whether a path is in a directory of other people's packages,
// which have all kinds of files and which nobody opens as a project.
func isDependency(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "node_modules" || name == "site-packages" || name == "vendor"
	})
}

// leads reports whether a path is the beginning of one that the pattern matches, by
// least names of it or more.
func (p *Pattern) leads(names []string, least int) bool { return len(p.ahead(names, least)) > 0 }

// ahead is what the pattern still has, where a path is the beginning of one that it matches
// by least names of it or more; of each way to be that.
func (p *Pattern) ahead(names []string, least int) (rests [][]string) {
	for n := least; n < len(p.names) && n <= len(names); n++ {
		if (!p.anchored || n == len(names)) && (&Pattern{names: p.names[:n]}).begins(names[len(names)-n:]) {
			rests = append(rests, p.names[n:])
		}
	}
	return rests
}

// named is with how many names the pattern's beginning is about some directories, and not
// about any: "*/keys" begins everywhere.
func (p *Pattern) named() int {
	return 1 + slices.IndexFunc(append(slices.Clip(p.names), ""), func(name string) bool { return name != "*" })
}

// fold gives names that some file system takes for the same one spelling.
func fold(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= unicode.MaxASCII || 'A' <= r && r <= 'Z' }) < 0 {
		return name
	}
	return strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1 // HFS+ does not see them
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return unicode.ToLower(least)
	}, name)
}

func foldAll(rel string) []string {
	if rel == "" {
		return nil
	}
	names := strings.Split(rel, "/")
	for i, name := range names {
		names[i] = fold(name)
	}
	return names
}
