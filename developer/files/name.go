package files

import (
	"path/filepath"
	"runtime"
	"strings"
)

// Abs is the absolute, clean path that a name stands for. Links are not resolved
// and nothing is checked.
func (s *Space) Abs(name string) string {
	name = s.expand(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.o.WorkingDir, name)
	}
	return filepath.Clean(name)
}

// expand replaces what stands for the person's directories: on Windows only the
// two variables that classic goose knew, elsewhere the tilde.
func (s *Space) expand(name string) string {
	if runtime.GOOS == "windows" {
		if s.o.HomeDir != "" {
			name = strings.ReplaceAll(name, "%USERPROFILE%", s.o.HomeDir)
		}
		if s.o.AppDataDir != "" {
			name = strings.ReplaceAll(name, "%APPDATA%", s.o.AppDataDir)
		}
		return name
	}
	if s.o.HomeDir == "" {
		return name
	}
	if name == "~" {
		return s.o.HomeDir
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(s.o.HomeDir, rest)
	}
	return name
}
