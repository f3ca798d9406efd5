//go:build !linux

package docker

import (
	"fmt"
	"os"
)

// Main is the first process of a container, which is a Linux system.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "docker: containers are Linux systems")
	return 2
}
