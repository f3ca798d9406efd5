package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// FillHome puts HomeFiles and HomeLinks into Home. Other files that are there stay, and nothing
// in it leads out of it: a sandbox may have had it before.
func (s Spec) FillHome() error {
	if s.Home == "" || len(s.HomeFiles)+len(s.HomeLinks) == 0 {
		return nil
	}
	root, err := os.OpenRoot(s.Home)
	if err != nil {
		return fmt.Errorf("opening the sandbox's home: %w", err)
	}
	defer func() { _ = root.Close() }()
	for name, text := range s.HomeFiles {
		if err := fill(root, name, text); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("writing %s into the sandbox's home: %w", name, err)
		}
	}
	for name, target := range s.HomeLinks {
		if err := link(root, name, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking %s in the sandbox's home: %w", name, err)
		}
	}
	return nil
}

func fill(root *os.Root, name string, text []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func link(root *os.Root, name, target string) error {
	if old, err := root.Readlink(name); err == nil && old != target {
		if err := root.Remove(name); err != nil {
			return err
		}
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return root.Symlink(target, name)
}
