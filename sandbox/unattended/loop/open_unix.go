//go:build unix

package loop

import (
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow opens a file for reading, not through a link, and does not wait for who
// writes to a pipe.
func openNoFollow(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}
