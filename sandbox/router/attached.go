package router

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/project"
)

// Editors put the content of files into prompts. They do not know what rules close, and
// a file is attached by a mention or a drag. What names a closed file is left out before
// anything of gander's, or an agent, has it; what a person pastes as text is theirs.

// withoutClosed is a prompt without the content of files that the rules close, and tells
// the person what was left out. Content of a file with more names than one is not taken
// from the editor either: the agent is told to open the file, where the kernel decides.
func (s *session) withoutClosed(prompt []acp.ContentBlock) []acp.ContentBlock {
	files := &attachedFiles{s: s}
	var out []acp.ContentBlock
	for i, raw := range prompt {
		kept, said := files.judge(acp.ParseContentBlock(raw))
		if kept == nil {
			continue
		}
		if out == nil {
			out = append(out, prompt...)
		}
		out[i] = kept
		s.tell("warning", said)
	}
	if out == nil {
		return prompt
	}
	return out
}

// attachedFiles judges the files of one prompt.
type attachedFiles struct {
	s      *session
	places []*attachedPlace // made when they are needed first
}

type attachedPlace struct {
	dir, real string
	rules     *ignore.Set
}

// judge returns what takes the place of a block, and what the person is told; nil where
// it may stay.
func (f *attachedFiles) judge(c acp.Content) (acp.ContentBlock, string) {
	if c.Type != "resource" && c.Type != "image" {
		return nil, ""
	}
	for _, path := range f.pathsOf(c.URI) {
		name := confine.Printable(path)
		switch f.reach(path, maxAttachedLinks) {
		case attachedClosed:
			return acp.TextBlock(fmt.Sprintf("[%s is closed: its content was left out, and cannot be read here.]\n", name)),
				fmt.Sprintf("%s is closed by the rules for files (gander policy explain says which): its content was left out of the prompt. To give it to the agent all the same, paste it as text.", name)
		case attachedManyNames:
			return acp.TextBlock(fmt.Sprintf("[%s was attached, and its content left out; read the file.]\n", name)),
				fmt.Sprintf("%s is a file with several names (hard links), of which one may be closed: its content was left out of the prompt, and the agent was told to read the file, which it can where none is closed. To give it to the agent all the same, paste it as text.", name)
		}
	}
	return nil, ""
}

// What is known of a file that is attached.
type attachedState int

const (
	attachedOpen attachedState = iota
	attachedManyNames
	attachedClosed
)

// maxAttachedLinks bounds the links from one of the session's directories to another.
const maxAttachedLinks = 5

// reach judges an absolute path by its name and by what it leads to in the session's
// directories. Nothing is opened.
func (f *attachedFiles) reach(path string, links int) attachedState {
	state := attachedOpen
	for _, p := range f.all() {
		rel, ok := p.relative(path)
		if !ok {
			continue
		}
		reached, err := project.Follow(p.dir, rel)
		info := reached.Info
		there := err == nil && !reached.Outside && info != nil
		switch {
		case p.closes(rel, there && !reached.Linked && info.IsDir()), err == nil && !reached.Outside && p.closes(reached.Path, there && info.IsDir()):
			return attachedClosed
		case err == nil && reached.Outside && links > 0:
			state = max(state, f.reach(reached.Path, links-1))
		case there && info.Mode().IsRegular() && project.Links(info) != 1:
			state = max(state, attachedManyNames)
		}
	}
	return state
}

// closes reports whether the rules close a path; they do when they cannot be read.
func (p *attachedPlace) closes(rel string, dir bool) bool {
	return rel != "." && p.rules != nil && p.rules.Ignored(filepath.Join(p.real, rel), dir) || p.rules == nil || p.rules.Closed() != nil
}

// relative is a path that is in the directory, by either name of that.
func (p *attachedPlace) relative(path string) (string, bool) {
	for _, dir := range []string{p.dir, p.real} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

// all are the session's directories with the rules of now.
func (f *attachedFiles) all() []*attachedPlace {
	if f.places != nil {
		return f.places
	}
	for _, dir := range append([]string{f.s.cwd}, f.s.dirs...) {
		p := &attachedPlace{dir: dir, real: realPath(dir)}
		o := ignore.SetOptions{Root: p.real, Shared: true, Logger: f.s.log}
		if r := f.s.r.opts.Terms.Rules(); r != nil {
			o.Global = r.Own
		}
		rules, err := ignore.NewSet(o)
		if err != nil { // nothing there is known to be open
			f.s.log.Warn("the rules for attached files cannot be read", "dir", dir, "err", err)
		} else {
			p.rules = rules
		}
		f.places = append(f.places, p)
	}
	return f.places
}

// pathsOf are the files that a URI may name, absolute and clean: a file URI, a path, or a
// URI of Zed's. Editors add lines and symbols behind a "?" or "#", and some write names
// as they are, in which these mean nothing.
func (f *attachedFiles) pathsOf(uri string) (paths []string) {
	add := func(path string) {
		if filepath.Separator == '\\' && len(path) > 2 && path[0] == '/' && path[2] == ':' {
			path = path[1:] // /C:/project
		}
		if path = filepath.FromSlash(path); path == "" {
			return
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(f.s.cwd, path)
		}
		path = filepath.Clean(path)
		paths = append(paths, path)
		if real := realPath(filepath.Dir(path)); real != filepath.Dir(path) && !f.within(path) {
			paths = append(paths, filepath.Join(real, filepath.Base(path))) // of a project that is also elsewhere
		}
	}
	u, err := url.Parse(uri)
	scheme, rest, ok := strings.Cut(uri, ":")
	switch {
	case ok && strings.EqualFold(scheme, "file"):
		if err == nil {
			add(u.Path)
		}
		if rest = strings.TrimPrefix(rest, "//localhost"); strings.HasPrefix(rest, "//") {
			rest = rest[2:]
		}
		if asItIs := rest; err != nil || exists(asItIs) {
			add(asItIs)
		}
	case ok && strings.EqualFold(scheme, "zed") && err == nil:
		add(u.Query().Get("path"))
	case !ok || len(scheme) == 1 || err != nil || u.Scheme == "": // no URI, or C:\project
		add(uri)
	}
	return paths
}

// within reports whether a path is in one of the session's directories.
func (f *attachedFiles) within(path string) bool {
	for _, p := range f.all() {
		if _, ok := p.relative(path); ok {
			return true
		}
	}
	return false
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
