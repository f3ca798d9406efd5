package developer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rootsOf returns the directories in which a call with this working directory may change
// files: the top of its work tree, the temporary directory, and what the server was given.
// A server that was started in the root of the file system has the last only. nil permits all, which "/" asks for:
// on Windows the root of a drive or of a share is that alone.
func (s *Spaces) rootsOf(dir string) []string {
	given := slices.Clone(s.o.Roots)
	if slices.Contains(given, "/") {
		return nil
	}
	if isTop(s.o.WorkingDir) || isTop(dir) {
		return append([]string{}, given...)
	}
	roots := append([]string{s.workTree(dir)}, given...)
	if temp := s.o.TempDir; filepath.IsAbs(temp) && !s.isTooWide(filepath.Clean(temp)) {
		roots = append(roots, filepath.Clean(temp))
	}
	return slices.Compact(roots)
}

// workTree returns the top of the git work tree that a directory is in. It is the directory
// itself where it is in none, or in one that is a person's home or holds one.
func (s *Spaces) workTree(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir
	}
	if top := repository(real); top != "" && !s.isTooWide(top) {
		return top
	}
	return dir
}

func isTop(dir string) bool { return filepath.Dir(dir) == dir }

// isTooWide reports whether a directory is a home, or holds homes.
func (s *Spaces) isTooWide(dir string) bool {
	home := s.o.HomeDir
	if real, err := filepath.EvalSymlinks(home); home != "" && err == nil {
		home = real
	}
	if isTop(dir) || home != "" && (dir == home || strings.HasPrefix(home, dir+string(filepath.Separator))) {
		return true
	}
	own, err := os.UserHomeDir() // that of this process, should the client name another
	switch parent := filepath.Dir(dir); {
	case err == nil && dir == own, dir == "/root", dir == "/home", dir == "/Users":
		return true
	default:
		return parent == "/home" || parent == "/Users"
	}
}
