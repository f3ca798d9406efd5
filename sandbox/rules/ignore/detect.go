package ignore

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// DetectOptions finds out what the file system of a directory takes for the same
// name, by asking for names that are there in another case. It writes nothing.
// Where no name tells, it is what the operating system usually does.
func DetectOptions(dir string) Options {
	usual := runtime.GOOS == "darwin" || runtime.GOOS == "windows"
	o := Options{FoldCase: usual, WindowsNames: runtime.GOOS == "windows"}
	names := []string{dir}
	if d, err := os.Open(dir); err == nil {
		entries, _ := d.Readdirnames(100) // some are enough
		d.Close()
		for _, e := range entries {
			names = append(names, filepath.Join(dir, e))
		}
	}
	for _, name := range names {
		if folds, known := foldsCase(name); known {
			// A mount or directory that differs from what it is in only adds: folding
			// hides more.
			if o.FoldCase = folds; folds {
				break
			}
		}
	}
	return o
}

// foldsCase asks for a name with its letters in the other case.
func foldsCase(name string) (folds, known bool) {
	dir, base := filepath.Split(name)
	other := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, base)
	if other == base {
		return false, false
	}
	a, err := os.Lstat(name)
	if err != nil {
		return false, false
	}
	b, err := os.Lstat(filepath.Join(dir, other))
	return err == nil && os.SameFile(a, b), true
}
