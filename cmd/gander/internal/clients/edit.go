package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/natefinch/atomic"
)

// maxFileBytes is far above what people write by hand.
const maxFileBytes = 8 << 20

// backupSuffix makes the name of the file that keeps what was there before.
const backupSuffix = ".before-gander"

// Change says what Edit has done.
type Change struct {
	// File is the file, with links followed; Backup is the file that keeps what it was
	// before, empty when there was nothing.
	File, Backup string
	// Changed is false when the file already was as it should be. Removed is
	// whether there is no such file any more.
	Changed, Removed bool
}

// Put puts a target's entry into a file, which need not exist. What was in the
// file before the entry came is kept beside it, and so is, under a number, what was in
// it before the entry changed. The file is replaced in one step; its mode, owner and a link
// that leads to it stay.
func Put(t *Target, file string, e Entry) (Change, error) {
	c, old, _, err := open(file)
	if err != nil {
		return c, err
	}
	edited, err := t.Put(old, e)
	if err != nil {
		return c, fmt.Errorf("%s: %w", c.File, err)
	}
	if old != nil && bytes.Equal(old, edited) {
		return c, nil
	}
	if without, err := t.Take(old, nil, e); err == nil && !bytes.Equal(without, old) {
		if c.Backup, err = numbered(c.File, old); err != nil { // the entry is there and only changes
			return c, fmt.Errorf("keeping what was there before: %w", err)
		}
		c.Changed = true
		return c, Replace(c.File, edited)
	}
	return write(c, old, edited)
}

// Has reports whether a file has a target's entry, and returns the file with links followed.
func Has(t *Target, file string, e Entry) (string, bool, error) {
	c, old, before, err := open(file)
	if err != nil || old == nil {
		return c.File, false, err
	}
	edited, err := t.without(old, before, e)
	if err != nil {
		return c.File, false, fmt.Errorf("%s: %w", c.File, err)
	}
	return c.File, edited == nil || !bytes.Equal(old, edited), nil
}

// Backups returns the files beside a client's that keep what was in it before gander's
// entry came or changed.
func Backups(file string) []string {
	found, _ := filepath.Glob(escapeGlob(file) + backupSuffix + "*") // the pattern is well formed
	return found
}

// escapeGlob returns a pattern that matches a path alone.
func escapeGlob(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// without returns a file without a target's entry: as it was before the entry, when nothing
// else has changed since; nil when nothing is left.
func (t *Target) without(old, before []byte, e Entry) ([]byte, error) {
	edited, err := t.Take(old, before, e)
	if err != nil || before == nil {
		return edited, err
	}
	if again, err := t.Put(before, e); err == nil && bytes.Equal(again, old) && !bytes.Equal(before, old) {
		return before, nil
	}
	return edited, nil
}

// Take takes a target's entry out of a file. When nothing else has changed since
// Put, the file is as it was before, to the byte.
func Take(t *Target, file string, e Entry) (Change, error) {
	c, old, before, err := open(file)
	if err != nil || old == nil {
		return c, err
	}
	edited, err := t.without(old, before, e)
	if err != nil {
		return c, fmt.Errorf("%s: %w", c.File, err)
	}
	if edited != nil && bytes.Equal(old, edited) {
		return c, nil
	}
	if edited == nil {
		c.Changed, c.Removed = true, true
		return c, errors.Join(os.Remove(c.File), removeIfThere(c.File+backupSuffix))
	}
	if bytes.Equal(edited, before) {
		c.Changed = true
		if err := Replace(c.File, edited); err != nil {
			return c, err
		}
		return c, removeIfThere(c.File + backupSuffix)
	}
	return write(c, old, edited)
}

func removeIfThere(file string) error {
	err := os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// open reads a file and what was there before gander's entry; both are nil when
// they do not exist.
func open(file string) (c Change, old, before []byte, err error) {
	if c.File, err = target(file); err != nil {
		return c, nil, nil, err
	}
	if old, err = read(c.File); err != nil {
		return c, nil, nil, err
	}
	before, err = read(c.File + backupSuffix)
	return c, old, before, err
}

// target is the file that a name stands for, links followed. It need not exist,
// but a link that leads nowhere is refused: where it should lead is not known here.
func target(file string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(file)
	if err == nil {
		return real, nil
	}
	if info, e := os.Lstat(file); e == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link that leads nowhere; make the file that it should lead to, or name another one with --file", file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // which names a part of the path
	}
	return "", fmt.Errorf("%s: %w; name another file with --file", file, err)
}

func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; name another one with --file", file)
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%s has %d bytes, too many for a configuration; name another one with --file", file, info.Size())
	}
	data, err := os.ReadFile(file)
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

// write keeps old as the backup and puts edited into the file.
func write(c Change, old, edited []byte) (Change, error) {
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return c, err
	}
	if old != nil {
		c.Backup = c.File + backupSuffix
		if err := replaceLike(c.Backup, c.File, old); err != nil {
			return c, fmt.Errorf("keeping what was there before: %w", err)
		}
	} else if err := removeIfThere(c.File + backupSuffix); err != nil {
		return c, err
	}
	c.Changed = true
	return c, Replace(c.File, edited)
}

// numbered keeps what a file holds in the first numbered backup that is not there yet.
func numbered(file string, data []byte) (backup string, err error) {
	for n := 1; ; n++ {
		backup = fmt.Sprintf("%s%s-%d", file, backupSuffix, n)
		f, err := os.OpenFile(backup, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return backup, errors.Join(f.Close(), replaceLike(backup, file, data))
	}
}

// Replace replaces a file in one step. Its mode and owner stay; a new one is the
// person's alone.
func Replace(file string, data []byte) error { return replaceLike(file, file, data) }

// replaceLike replaces a file in one step, with the mode and owner of another,
// which may be the same or not be there; then it is the person's alone.
func replaceLike(file, like string, data []byte) error {
	info, err := os.Stat(like)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := atomic.WriteFile(file, bytes.NewReader(data)); err != nil {
		return err
	}
	if info == nil {
		return os.Chmod(file, 0o600)
	}
	return errors.Join(keepOwner(file, info), os.Chmod(file, info.Mode().Perm()))
}
