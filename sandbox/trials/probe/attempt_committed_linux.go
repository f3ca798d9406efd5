package probe

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// committedAttempts read git's object stores without git.
func committedAttempts() map[string]attempt {
	return map[string]attempt{
		"inflate":       func(f Facts, _ []string) ([]byte, error) { return inflate(filepath.Dir(f.Dir)) },
		"inflate clone": func(f Facts, _ []string) ([]byte, error) { return inflate(filepath.Join(filepath.Dir(f.Dir), "clone")) },
	}
}

// inflate is what the object store of a repository has, or one that its git uses besides.
func inflate(repository string) ([]byte, error) {
	objects := filepath.Join(repository, ".git", "objects")
	stores := []string{objects}
	if beside, err := os.ReadFile(filepath.Join(objects, "info", "alternates")); err == nil {
		stores = append(stores, strings.Fields(string(beside))...)
	}
	for _, dir := range stores {
		if got := inflated(dir); got != nil {
			return got, nil
		}
	}
	return nil, errors.New("no object that can be read has it")
}

// inflated is the first thing in the files of a directory that unpacks to the secret. It
// may begin anywhere: a pack has many, and no sign where.
func inflated(dir string) (found []byte) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		raw, _ := os.ReadFile(path)
		for i := range raw {
			r, err := zlib.NewReader(bytes.NewReader(raw[i:]))
			if err != nil {
				continue
			}
			if text, _ := io.ReadAll(io.LimitReader(r, 1<<20)); hasSecret(text) {
				found = text
				return fs.SkipAll
			}
		}
		return nil
	})
	return found
}
