package controlplane

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// flush has all that was written in a directory on its disk.
func flush(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("flushing what was restored: %w", err)
	}
	return nil
}
