package loop

import (
	"fmt"
	"os"
)

// openNoFollow opens a file for reading, not through a link. Between looking and opening
// is a moment: on Windows there is no sandbox whose agent could use it.
func openNoFollow(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return os.Open(path)
}
