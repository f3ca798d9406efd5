package docker

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// imageProgram is gander in the images that Build makes.
const imageProgram = "/usr/local/bin/gander"

// program is the host's path of the supervisor's program, empty for the image's own.
func (o Options) program() (string, error) {
	path := o.Executable
	if path == "" {
		if runtime.GOOS != "linux" {
			return "", nil
		}
		var err error
		if path, err = os.Executable(); err != nil {
			return "", fmt.Errorf("finding gander's own program: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && o.Executable == "" {
		return "", errors.New("gander's program was removed while it runs, and containers need it; start gander again")
	}
	if err != nil {
		return "", fmt.Errorf("finding the supervisor's program %s: %w", path, err)
	}
	return real, checkProgram(real)
}

// checkProgram refuses what cannot run in an arbitrary Linux image.
func checkProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the supervisor's program %s is not a Linux program: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the program %s is linked dynamically, so it does not start in every image; build it with make build, or CGO_ENABLED=0", path)
		}
	}
	return nil
}
