// Package project answers what every driver asks about a project before it
// shows it in a sandbox: which directory it really is, whether it may be shown,
// and whom commands in it run as. Use [Open].
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SystemDirs are where the system's own programs and settings are.
func SystemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"}
}

// Project is a directory that may be shown in a sandbox.
type Project struct {
	// Path is the directory without symbolic links, Name the clean spelling that
	// was asked for. They are equal for most.
	Path, Name string
	// Owner is whom commands run as.
	Owner Owner
}

// Owner is a user of the sandbox.
type Owner struct {
	UID, GID int
	// Warnings are sentences about what is unusual about it.
	Warnings []string
}

// An UnfitError is why a directory cannot be the project of a sandbox.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return e.Reason }

func unfit(format string, args ...any) error { return &UnfitError{fmt.Sprintf(format, args...)} }

// Open resolves a project's directory and refuses those that would show more
// than a project: the system's directories and what contains one of the private
// paths. Then the error is an [UnfitError].
func Open(dir string, private ...string) (Project, error) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Project{}, fmt.Errorf("opening the project directory %s: %w", dir, err)
	}
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() || !filepath.IsAbs(path) {
		return Project{}, unfit("the project %s is not a directory; name one by its absolute path", dir)
	}
	if isSystem(path) {
		return Project{}, unfit("the project %s is part of the system; go to the project's own directory, or name it with --cwd", path)
	}
	for _, p := range private {
		if real, err := filepath.EvalSymlinks(p); p != "" && err == nil && Below(real, path) {
			return Project{}, unfit("the project %s contains gander's own state (%s), which a sandbox must not see; go to the project's own directory below it, or name that with --cwd", path, p)
		}
	}
	return Project{Path: path, Name: filepath.Clean(dir), Owner: identify(path, st)}, nil
}

func isSystem(path string) bool {
	if slices.Contains(append(SystemDirs(), "/", "/home", "/var", "/run", "/tmp", "/dev", "/proc", "/sys"), path) {
		return true
	}
	return Below(path, "/proc") || Below(path, "/sys") || Below(path, "/dev")
}

// Below says whether path is dir or inside it. Both are clean.
func Below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// identify finds the owner: root works as the owner of the project, anybody else
// as himself.
func identify(path string, st fs.FileInfo) Owner {
	self, group := os.Geteuid(), os.Getegid()
	uid, gid, known := fileOwner(st)
	switch {
	case !known:
		return Owner{UID: unknownUser, GID: unknownUser}
	case self == 0 && uid == 0:
		return Owner{Warnings: []string{fmt.Sprintf("The project %s is owned by root, so commands in the sandbox run as root (uid 0), without capabilities; give it to an ordinary user with chown -R to avoid that.", path)}}
	case self == 0:
		return Owner{UID: uid, GID: gid}
	case self != uid:
		return Owner{UID: self, GID: group, Warnings: []string{fmt.Sprintf("The project %s is owned by uid %d; commands in the sandbox run as you (uid %d) and can change only what you can.", path, uid, self)}}
	}
	return Owner{UID: self, GID: group}
}

// unknownUser is the first ordinary user of most systems, for where files have no uid.
const unknownUser = 1000

// Own gives a sandbox's home to the user who works in it, if we may. Nothing
// runs in it now; what has another name elsewhere is left alone.
func (o Owner) Own(home string) error {
	if home == "" || os.Geteuid() != 0 {
		return nil
	}
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || !o.mayOwn(info) {
			return err
		}
		return os.Lchown(path, o.UID, o.GID)
	})
	if err != nil {
		return fmt.Errorf("giving the sandbox's home to uid %d: %w", o.UID, err)
	}
	return nil
}

// mayOwn says whether a file is not the owner's yet and has no other name.
func (o Owner) mayOwn(info fs.FileInfo) bool {
	uid, gid, known := fileOwner(info)
	return known && (uid != o.UID || gid != o.GID) && (info.IsDir() || Links(info) == 1)
}
