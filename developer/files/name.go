package files

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Abs is the absolute, clean path that a name stands for. Links are not resolved
// and nothing is checked.
func (s *Space) Abs(name string) string { return filepath.Clean(s.absolute(name)) }

// absolute is the path that a name stands for, as it is spelled.
func (s *Space) absolute(name string) string {
	name = s.expand(name)
	if filepath.IsAbs(name) {
		return name
	}
	sep := string(filepath.Separator)
	here := filepath.VolumeName(s.o.WorkingDir)
	switch volume := filepath.VolumeName(name); {
	case volume != "" && !strings.EqualFold(volume, here): // C:x, of a drive that the call does not work on
		return volume + sep + name[len(volume):]
	case volume != "":
		name = name[len(volume):]
	case here != "" && (strings.HasPrefix(name, sep) || strings.HasPrefix(name, "/")): // the root of the drive
		return here + name
	}
	return strings.TrimSuffix(s.o.WorkingDir, sep) + sep + name
}

// expand replaces what stands for a directory or a file: a file URL, the tilde, and on
// Windows the two variables that classic goose knew.
func (s *Space) expand(name string) string {
	if path, ok := fileURL(name); ok {
		return path
	}
	if runtime.GOOS == "windows" {
		if s.o.HomeDir != "" {
			name = strings.ReplaceAll(name, "%USERPROFILE%", s.o.HomeDir)
		}
		if s.o.AppDataDir != "" {
			name = strings.ReplaceAll(name, "%APPDATA%", s.o.AppDataDir)
		}
	}
	rest, ok := strings.CutPrefix(filepath.ToSlash(name), "~")
	if s.o.HomeDir == "" || !ok || rest != "" && rest[0] != '/' {
		return name
	}
	return s.o.HomeDir + rest
}

// urls begin like this.
var urls = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+://`)

// ErrURL is wrapped when a name is an address of something else than a file here.
var ErrURL = errors.New("it is not a file of this machine")

// unreadable refuses addresses, which would else be taken for names of directories.
func unreadable(name string) error {
	if _, ok := fileURL(name); ok || !urls.MatchString(name) {
		return nil
	}
	return fmt.Errorf("'%s' cannot be used as a path: %w; give the path of a file or a directory", name, ErrURL)
}

// fileURL is the path of a file URL (RFC 8089) that is of this machine.
func fileURL(name string) (string, bool) {
	const scheme = "file:"
	if len(name) < len(scheme) || !strings.EqualFold(name[:len(scheme)], scheme) {
		return "", false
	}
	rest := name[len(scheme):]
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		at := strings.IndexByte(after, '/')
		if at < 0 {
			return "", false
		}
		host, rest = after[:at], after[at:]
	}
	if !strings.HasPrefix(rest, "/") {
		return "", false
	}
	if path, err := url.PathUnescape(rest); err == nil {
		rest = path
	}
	if strings.EqualFold(host, "localhost") {
		host = ""
	}
	if runtime.GOOS != "windows" {
		return rest, host == ""
	}
	if host != "" {
		return `\\` + host + filepath.FromSlash(rest), true
	}
	if drive := strings.TrimPrefix(rest, "/"); filepath.VolumeName(drive) != "" {
		rest = drive
	}
	return filepath.FromSlash(rest), true
}
