package router

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where no program inside reads and writes files, gander does, and stays at files.
func TestFilesHere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "a.txt")
	if err := writeHere(file, "a long text"); err != nil {
		t.Fatal(err)
	}
	if err := writeHere(file, "text"); err != nil {
		t.Fatal(err)
	}
	if got, err := readHere(file); got != "text" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := readHere(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := readHere(dir); !errors.Is(err, errNoFile) {
		t.Errorf("reading a directory: %v", err)
	}
	if err := writeHere(dir, "text"); !errors.Is(err, errNoFile) {
		t.Errorf("writing a directory: %v", err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("x", maxText+2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readHere(file); len(got) != maxText+1 || err != nil {
		t.Errorf("of a large file %d bytes are read, %v", len(got), err)
	}
}
