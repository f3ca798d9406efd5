package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// lookPath finds a program as execvp does, but in the command's own environment
// and directory.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path := lookupEnv(env, "PATH")
	for _, d := range filepath.SplitList(path) {
		file := filepath.Join(d, name)
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		for _, ext := range extensions() {
			if isProgram(file + ext) {
				return file + ext, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not in PATH (%s): %w", name, path, fs.ErrNotExist)
}

// lookupEnv returns the last value of a variable; that is the one that counts.
func lookupEnv(env []string, name string) (value string) {
	for _, kv := range env {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name)) {
			value = v
		}
	}
	return value
}

func extensions() []string {
	if runtime.GOOS == "windows" {
		return []string{"", ".exe", ".com", ".bat", ".cmd"}
	}
	return []string{""}
}

func isProgram(file string) bool {
	st, err := os.Stat(file)
	return err == nil && st.Mode().IsRegular() && mayExecute(file)
}
