package enforce

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// ownerEnters are the bits of a directory's mode without which its owner finds nothing in it.
const ownerEnters = 0o500

// chmod carries out chmod, fchmodat and fchmodat2.
func (t *task) chmod(dir int32, addr uint64, mode uint32, flags int) answer {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return done(unix.EINVAL)
	}
	fd, e := t.reach(dir, addr, flags&unix.AT_SYMLINK_NOFOLLOW == 0, flags&unix.AT_EMPTY_PATH != 0)
	if e != 0 {
		return done(e)
	}
	return t.setMode(fd, mode)
}

func (t *task) fchmod() answer {
	fd, e := t.descriptor(t.fd(0))
	if e != 0 {
		return done(e)
	}
	return t.setMode(fd, uint32(t.arg(1)))
}

// setMode gives what a descriptor stands for a mode. What has it already needs none, so
// that a whole tree can be given one.
func (t *task) setMode(fd int, mode uint32) answer {
	o, e := t.g.inspect(fd)
	mode &= 0o7777
	switch {
	case e != 0:
		return done(e)
	case o.kind() == unix.S_IFLNK:
		return done(unix.EOPNOTSUPP)
	case uint32(o.stat.Mode)&0o7777 == mode && int(o.stat.Uid) == unix.Geteuid():
		return done(0)
	}
	if !t.g.isFresh(&o) {
		if t.g.isTry(&o, mode) {
			return done(unix.EPERM)
		}
		if e := t.permitAttribute(&o, mode&ownerEnters != ownerEnters); e != 0 {
			return done(e)
		}
	}
	if !t.waits() {
		return done(unix.EINTR)
	}
	return done(number(unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+decimal(fd), mode, 0)))
}

// isTry reports whether a mode is by which git init tries whether files can have one: its
// configuration's, and the owner may run that, or no more. Nobody is told of it.
func (g *Guard) isTry(o *object, mode uint32) (is bool) {
	if mode^uint32(o.stat.Mode)&0o7777 != unix.S_IXUSR {
		return false
	}
	for _, tree := range o.trees {
		if w, ok := tree.policy().(Writer); ok {
			rel, in := tree.really(g, o.stat.Mnt_id, o.path)
			is = is || in && w.Locks(rel+".lock") == rel
		}
	}
	return is
}

// permitAttribute decides whether an object may have other attributes. shuts says that a
// directory may be shut by them, which none may be that leads to something protected.
func (t *task) permitAttribute(o *object, shuts bool) unix.Errno {
	if e := t.permitObject(o, true); e != 0 || !shuts || !o.isDir() {
		return e
	}
	for _, tree := range o.trees {
		if rel, _ := tree.really(t.g, o.stat.Mnt_id, o.path); rel != "" && tree.leads(rel) {
			return t.denied(o.path)
		}
	}
	return 0
}

// What the kernel takes for an extended attribute (xattr(7)).
const (
	maxAttributeName  = 255
	maxAttributeValue = 1 << 16
	accessList        = "system.posix_acl_access" // which is a mode, too
	defaultList       = "system.posix_acl_default"
)

// maxList bounds an access list, in bytes. The kernel keeps those of files in memory, and
// counts them in nobody's: with this one a directory of its two takes as much as a long link.
const maxList = 2000

// shutsOwner reports whether an access list (acl(5)), as the kernel has it in an attribute,
// keeps a directory's owner from finding what is in it; one that is none does.
func shutsOwner(list []byte) bool {
	const header, entry, owner = 4, 8, 1 // bytes, and the tag of the owner's entry
	for at := header; at+entry <= len(list); at += entry {
		if binary.LittleEndian.Uint16(list[at:]) == owner {
			return binary.LittleEndian.Uint16(list[at+2:])&(ownerEnters>>6) != ownerEnters>>6
		}
	}
	return true
}

// setAttribute gives what a descriptor stands for an extended attribute, by the call's
// other arguments.
func (t *task) setAttribute(fd int, e unix.Errno) answer {
	size := t.arg(3)
	if e == 0 && size > maxAttributeValue {
		e = unix.E2BIG
	}
	if e != 0 {
		return done(e)
	}
	value := make([]byte, size)
	if size > 0 && t.read(value, t.arg(2)) != int(size) {
		return done(unix.EFAULT)
	}
	return t.changeAttribute(fd, func(name string) bool { return name == accessList && shutsOwner(value) }, func(path, name string) error {
		if len(value) > maxList && (name == accessList || name == defaultList) {
			return unix.ENOSPC // as file systems with less room say
		}
		return unix.Setxattr(path, name, value, int(int32(t.arg(4))))
	})
}

func (t *task) removeAttribute(fd int, e unix.Errno) answer {
	if e != 0 {
		return done(e)
	}
	return t.changeAttribute(fd, func(string) bool { return false }, unix.Removexattr)
}

// changeAttribute does something with the attribute that the call names. shuts says whether
// that would shut a directory.
func (t *task) changeAttribute(fd int, shuts func(name string) bool, do func(path, name string) error) answer {
	name, e := t.path(t.arg(1))
	if e == 0 && (name == "" || len(name) > maxAttributeName) {
		e = unix.ERANGE
	}
	if e != 0 {
		return done(e)
	}
	o, e := t.g.inspect(fd)
	if e == 0 {
		e = t.permitAttribute(&o, shuts(name))
	}
	if e != 0 {
		return done(e)
	}
	if !t.waits() {
		return done(unix.EINTR)
	}
	return done(number(do("/proc/self/fd/"+decimal(fd), name)))
}

// descriptor is an O_PATH descriptor of what one of the caller stands for.
func (t *task) descriptor(fd int32) (int, unix.Errno) {
	if fd < 0 {
		return -1, unix.EBADF
	}
	return t.base(fd, "")
}

// named is an O_PATH descriptor of what the call's first argument names.
func (t *task) named(follow bool) (int, unix.Errno) { return t.reach(here, t.arg(0), follow, false) }
