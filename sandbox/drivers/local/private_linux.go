package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/inside/supervise"
)

// privateDir is the system's directory that has private files in it.
const privateDir = "/etc"

// privateBelow lists what not everybody may read below a directory of the system. There
// are thousands of files to ask for, and somebody waits: nothing is sorted, and each is
// asked for by its name alone.
func privateBelow(dir string) (found []supervise.Private, err error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) { // by now
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for private files: %w", err)
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("looking for private files: %w", err)
	}
	at := int(d.Fd())
	for _, e := range entries {
		if e.Type() == fs.ModeSymlink { // most of /etc on some systems
			continue
		}
		path := dir + "/" + e.Name()
		var st unix.Stat_t
		if err := unix.Fstatat(at, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			return nil, fmt.Errorf("looking for private files: %s: %w", path, err)
		}
		switch isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
		case isDir && st.Mode&0o005 != 0o005:
			found = append(found, supervise.Private{Path: path, Dir: true})
		case isDir:
			below, err := privateBelow(path)
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		case st.Mode&0o004 == 0:
			found = append(found, supervise.Private{Path: path})
		}
	}
	return found, nil
}
