package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// Processes are the command lines on this machine that contain marker, in
// whatever sandbox. It reports false where they cannot be seen.
func Processes(marker string) ([]string, bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	var found []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(raw, []byte(marker)) {
			continue // it ended meanwhile, or is another's
		}
		found = append(found, strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " "))
	}
	return found, len(files) > 0
}
