// Package enforce makes the kernel ask before a process in a sandbox opens,
// creates, renames, links or removes anything, so that a file that rules close
// stays closed whatever the process tries: other names, links, /proc, copies of
// descriptors, races, raw system calls.
//
// A process calls [Filter.Install] and from then on, for itself and every process it
// starts, the calls of a fixed table stop in the kernel until a [Guard], in the
// supervisor, has carried them out or refused them. The Guard opens the file
// itself, with the rights of the caller, decides on the object that it really
// got, and puts the descriptor into the caller (seccomp_unotify(2)). What the
// kernel cannot stop for us is refused outright: io_uring, file handles, mounts,
// new namespaces, 32 bit calls.
//
// It is Linux only (5.14 or newer: SECCOMP_ADDFD_FLAG_SEND) and works for root and
// for ordinary users, in namespaces, in a container and without either. [Supported]
// tells whether this machine can.
//
// # What it holds
//
// Contents of files that [Policy] closes: reading, writing, truncating, linking,
// renaming, replacing and removing them, and of files that it leaves for reading
// only, writing, making, replacing, linking, renaming and removing them; the mode of both; also when the file came to be, or to be
// closed, after the sandbox had started, and also by hard links made before.
//
// # What it does not hold
//
// Names, sizes and times of closed files (stat and directory listings are not
// supervised), changing times, also of files for reading only, and what chown takes
// from a mode with them (set-user-id), running a closed program that is executable,
// content that also exists elsewhere (git objects, swap files, a temporary file that
// the host has not renamed yet), descriptors opened before a file became closed, and
// file systems that show the same storage under another device.
//
// # Failure
//
// Everything fails closed. When the Guard has gone, supervised calls fail with
// ENOSYS; when it cannot read, resolve or judge, they fail with an error. While a
// directory of a tree cannot be listed, files with several hard links are closed that
// are on the device of one of its directories, whatever their names.
package enforce

// Access is what a policy leaves of a file.
type Access uint8

// The degrees of access, from all to none.
const (
	// Full is what the file's own permissions allow.
	Full Access = iota
	// ReadOnly lets it be read, but not written, replaced, renamed, linked or removed.
	ReadOnly
	// None closes its contents altogether.
	None
)

// A Policy judges the entries of one tree. It is asked on every open, by several
// threads at a time, and must answer quickly.
type Policy interface {
	// Access judges an entry by its slash-separated path relative to the tree's
	// top, not "" and without "..". dir says that it is, or is to be, a directory.
	// An entry below a directory with no access has none.
	Access(rel string, dir bool) Access
	// Closed says whether Access is None, which most calls ask and which may be less work.
	Closed(rel string, dir bool) bool
	// ByName says that Access depends on the base names along the path only, so
	// that moving a directory changes nothing.
	ByName() bool
	// MayMove says whether a directory may be moved from one path to another, as far
	// as its new place could give what is in it another meaning, now or by an entry that
	// is made while it moves. It is asked besides Access of both.
	MayMove(from, to string) bool
	// Moving is called when a directory is about to get another name, and what it returns
	// when it has that: a path may be another directory's from then on, and what was known
	// of it wrong.
	Moving() (over func())
	// MayLink says whether a symbolic link may be made at a path. It is asked besides
	// Access of the path. One that is there stays where neither it may be made nor a
	// directory moved from the path to itself: something protected is reached over it.
	MayLink(rel string) bool
}

// Denial tells of an operation that a policy refused, or of a socket that is not connected to.
type Denial struct {
	// Operation is the system call's name.
	Operation string
	// Path is what was refused, absolute; it may be another than the program named.
	Path string
	// PID is the process that tried.
	PID int
	// Reason holds what a [Writer] said against what a program wants to be written; empty otherwise.
	Reason string
	// Unheard says that no policy did: the path is that of a socket, which begins with @
	// when it is in no file system, and nobody inside listens there.
	Unheard bool
}
