package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Where the parts are while the root is put together: the old root is at oldRoot
// of a first, temporary root, and the new one grows at newRoot.
const (
	stagingDir = "/tmp"
	oldRoot    = "/old"
	newRoot    = "/new"
)

const tmpfsFlags = unix.MS_NOSUID | unix.MS_NODEV

// buildRoot moves the process, in a mount namespace of its own, into a fresh root
// that holds what r lists, private temporary directories, a minimal /dev and a
// /proc of its PID namespace. The host's tree is unmounted.
func buildRoot(r Root) error {
	for _, step := range []struct {
		doing string
		do    func(Root) error
		// basic steps use nothing that a caller or a project chose: where the kernel refuses
		// one of them it refuses mounting as such.
		basic bool
	}{
		{"leaving the host's root", enterStaging, true},
		{"mounting temporary directories", mountTemporary, true},
		{"showing the system's directories", bindSystem, false},
		{"making /dev", makeDev, true},
		{"mounting /proc", mountProc, true},
		{"showing a directory", bindAll, false},
		{"showing a file", bindFiles, false},
		{"showing gander itself", bindExecutable, false},
		{"naming the resolver", nameResolver, false},
		{"hiding private files", hidePrivate, false},
		{"entering the new root", enterRoot, false},
	} {
		err := step.do(r)
		if err != nil && step.basic {
			err = refused(err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	return nil
}

// refused marks errors by which the kernel says no to mounting as such. Nothing
// else may be marked: it makes the driver do without isolation, and nobody but the
// machine's own settings may bring that about.
func refused(err error) error {
	var failed *mountError
	if errors.As(err, &failed) && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
		return fmt.Errorf("%w: %w", ErrIsolation, err)
	}
	return err
}

// mountError says which mount failed.
type mountError struct {
	what, at string
	err      error
}

func (e *mountError) Error() string {
	return "mounting " + e.what + " at " + strings.TrimPrefix(e.at, newRoot) + ": " + e.err.Error()
}
func (e *mountError) Unwrap() error { return e.err }

func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		what := fstype
		if what == "" {
			what = strings.TrimPrefix(source, oldRoot)
		}
		return &mountError{what, target, err}
	}
	return nil
}

func enterStaging(Root) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("gander", stagingDir, "tmpfs", tmpfsFlags, "mode=0755"); err != nil {
		return err
	}
	for _, d := range []string{oldRoot, newRoot} {
		if err := os.Mkdir(stagingDir+d, 0o755); err != nil {
			return err
		}
	}
	if err := pivot(stagingDir, stagingDir+oldRoot); err != nil {
		return err
	}
	return mount("gander", newRoot, "tmpfs", tmpfsFlags, "mode=0755")
}

func pivot(root, old string) error {
	if err := unix.PivotRoot(root, old); err != nil {
		return &mountError{"the new root", "/", err}
	}
	return os.Chdir("/")
}

func mountTemporary(r Root) error {
	for _, d := range []struct{ path, mode string }{
		{"/tmp", "1777"}, {"/var/tmp", "1777"}, {"/run", "0755"},
	} {
		if err := os.MkdirAll(newRoot+d.path, 0o755); err != nil {
			return err
		}
		if err := mount("tmpfs", newRoot+d.path, "tmpfs", tmpfsFlags, "mode="+d.mode+r.temporary(d.path)); err != nil {
			return err
		}
	}
	return nil
}

// temporary are the bounds of a file system in memory, as options of its mount.
func (r Root) temporary(at string) string {
	return TemporarySize(at, r.Temporary) + temporaryFiles(at, r.TemporaryFiles)
}

func bindSystem(r Root) error {
	for _, path := range append(r.System, "/sys/devices/system/cpu") {
		st, err := os.Lstat(oldRoot + path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			err = copyLink(path)
		} else {
			err = bind(Bind{Path: path})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyLink(path string) error {
	target, err := os.Readlink(oldRoot + path)
	if err != nil {
		return err
	}
	return os.Symlink(target, newRoot+path)
}

func bindAll(r Root) error {
	for _, b := range r.Binds {
		if err := bind(b); err != nil {
			return err
		}
	}
	for _, l := range r.Links {
		if err := link(l); err != nil {
			return err
		}
	}
	return nil
}

// link makes a symbolic link; one that would hide something shown is left out.
func link(l Link) error {
	if err := os.MkdirAll(filepath.Dir(newRoot+l.At), 0o755); err != nil {
		return nil //nolint:nilerr // inside a read-only directory: the other name still works
	}
	if err := os.Symlink(l.Target, newRoot+l.At); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// bind shows a path of the old root in the new one, never with more than the
// old mount permitted, and without devices or set-user-id programs.
func bind(b Bind) error {
	at := newRoot + b.At
	if b.At == "" {
		at = newRoot + b.Path
	}
	return bindFrom(oldRoot+b.Path, at, b)
}

// bindFrom is bind with both places as they are now.
func bindFrom(source, at string, b Bind) error {
	if err := mountPoint(source, at); err != nil {
		return fmt.Errorf("%s cannot be shown in the sandbox: %w", b.Path, err)
	}
	if err := mount(source, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if !b.Writable {
		flags |= unix.MS_RDONLY
	}
	return restrict(at, flags)
}

// mountPoint makes a directory or an empty file to mount source on.
func mountPoint(source, at string) error {
	st, err := os.Stat(source)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if st.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// restrict adds flags to a mount and to all below it.
func restrict(at string, flags uintptr) error {
	attr := unix.MountAttr{Attr_set: mountAttributes(flags)}
	err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW, &attr)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // Linux before 5.12; a container's filter
		if err != nil {
			err = &mountError{"restrictions", at, err}
		}
		return err
	}
	return restrictEach(at, flags)
}

// mountAttributes are mount flags as mount_setattr(2) has them.
func mountAttributes(flags uintptr) (a uint64) {
	for flag, attribute := range map[uintptr]uint64{
		unix.MS_RDONLY: unix.MOUNT_ATTR_RDONLY, unix.MS_NOSUID: unix.MOUNT_ATTR_NOSUID, unix.MS_NODEV: unix.MOUNT_ATTR_NODEV,
	} {
		if flags&flag != 0 {
			a |= attribute
		}
	}
	return a
}

// restrictEach does so with a remount of each.
func restrictEach(at string, flags uintptr) error {
	mounts, err := mountsBelow(at)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := mount("", m.at, "", unix.MS_REMOUNT|unix.MS_BIND|m.flags|flags, ""); err != nil {
			return err
		}
	}
	return nil
}

func bindExecutable(r Root) error {
	if r.Executable == "" {
		return nil
	}
	err := bind(Bind{Path: r.Executable, At: InsideExecutable})
	if err == nil {
		return nil
	}
	if runs, _ := os.Readlink(oldRoot + "/proc/self/exe"); strings.HasPrefix(runs, "/memfd:") {
		return fmt.Errorf("%w; gander was removed while it runs: install it again, then start it again", err)
	}
	// It was replaced or removed while it runs: the running one is copied.
	if cerr := copyExecutable(); cerr != nil {
		return errors.Join(err, cerr)
	}
	return nil
}

func copyExecutable() error {
	in, err := os.Open(oldRoot + "/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(newRoot+InsideExecutable), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(newRoot+InsideExecutable, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// bindFiles shows files that are nowhere else: what they are made of has no name when it is
// shown. One that would be in a read-only directory, or at a link, is left out.
func bindFiles(r Root) error {
	const made = newRoot + "/run/file"
	for at, text := range r.Files {
		if st, err := os.Lstat(newRoot + at); err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err := errors.Join(os.WriteFile(made, text, 0o444), os.Chmod(made, 0o444)); err != nil { // whatever the umask
			return err
		}
		err := bindFrom(made, newRoot+at, Bind{Path: at})
		if err := errors.Join(err, os.Remove(made)); err != nil && !errors.Is(err, unix.EROFS) {
			return err
		}
	}
	return nil
}

func hidePrivate(r Root) error {
	for _, p := range r.Private {
		if err := hide(newRoot+p.Path, p.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hide covers a directory with an empty one, anything else with the null device.
func hide(path string, dir bool) error {
	if dir {
		return mount("tmpfs", path, "tmpfs", tmpfsFlags|unix.MS_RDONLY, "mode=0555,size=4k")
	}
	return mount(newRoot+"/dev/null", path, "", unix.MS_BIND, "")
}

// enterRoot makes the new root the only one, and its top read-only.
func enterRoot(Root) error {
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return &mountError{"the new root", "/", err}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return &mountError{"nothing over the old root", "/", err}
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|tmpfsFlags, "")
}
