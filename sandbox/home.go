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
		link(root, name, target)
	}
	return nil
}

// link makes a link, or removes one that leads nowhere now. Where something else is in its place,
// programs inside have that.
func link(root *os.Root, name, target string) {
	if have, err := root.Readlink(name); err == nil && have != target {
		_ = root.Remove(name)
	}
	if target != "" && root.MkdirAll(path.Dir(name), 0o700) == nil {
		_ = root.Symlink(target, name)
	}
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
