package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gander.dev/gander/sandbox/policy"
)

// maxGitConfig bounds what is read of a repository's configuration, in bytes.
const maxGitConfig = 1 << 20

// Protection are the files of a tree that nothing in a sandbox may write, with those
// that git uses under names of its own choice in this tree.
func Protection(tree string, w policy.Writes) (*policy.Protection, error) {
	gitDirs, others := gitPlaces(tree)
	for _, rel := range others {
		pattern := "/" + rel
		if _, err := policy.ParsePattern(pattern); err == nil {
			w.Protect = append(w.Protect[:len(w.Protect):len(w.Protect)], pattern)
		}
	}
	p, err := policy.NewProtection(w, gitDirs...)
	if err != nil {
		return nil, fmt.Errorf("protecting files of %s: %w", tree, err)
	}
	return p, nil
}

// gitPlaces are directories and files of a tree that git takes its configuration or
// hooks from although their names do not say so, relative to the tree: where .git
// leads to as a link or a file, the tree itself when it is a bare repository, and
// what the configuration names. They are looked for once, before anything hostile
// runs; git itself is not asked.
func gitPlaces(tree string) (gitDirs, others []string) {
	add := func(list *[]string, path string) {
		rel, err := filepath.Rel(tree, path)
		if err == nil && filepath.IsLocal(rel) {
			*list = append(*list, filepath.ToSlash(rel))
		}
	}
	dir := filepath.Join(tree, ".git")
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		add(&gitDirs, real)
		dir = real
	}
	if text, err := readPlain(dir); err == nil {
		if to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:"); ok {
			dir = from(tree, strings.TrimSpace(to))
			add(&gitDirs, dir)
		}
	}
	if isBare(tree) {
		gitDirs, dir = append(gitDirs, ""), tree
	}
	for _, name := range []string{"config", "hooks", "modules", "worktrees", "commondir"} {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, name)); err == nil && real != filepath.Join(dir, name) {
			add(&others, real)
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		text, err := readPlain(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		hooks, includes := namedIn(text)
		for _, path := range hooks {
			add(&others, from(tree, path))
		}
		for _, path := range includes {
			add(&others, from(dir, path))
		}
	}
	return gitDirs, others
}

// from is a path of git's, which may be relative to a directory.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// isBare reports whether git takes a directory itself for a repository.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// namedIn are the values of hooksPath and of includes in the text of a
// configuration. A wrong guess protects too much.
func namedIn(text []byte) (hooks, includes []string) {
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxGitConfig)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if head, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(head, "[") {
			section, line = strings.ToLower(strings.TrimPrefix(head, "[")), strings.TrimSpace(rest)
		}
		key, value, _ := strings.Cut(line, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch key = strings.ToLower(strings.TrimSpace(key)); {
		case value == "":
		case key == "hookspath":
			hooks = append(hooks, value)
		case key == "path" && strings.HasPrefix(section, "include"):
			includes = append(includes, value)
		}
	}
	return hooks, includes
}

// readPlain reads a regular file that may be somebody else's.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe has no other end
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxGitConfig))
}
