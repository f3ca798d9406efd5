package shell

import "os"

// holdLock makes a file that nobody can remove while it is open.
func holdLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
}

// abandoned says whether a lock's holder has died: then it can be removed.
func abandoned(name string) bool { return os.Remove(name) == nil }

// owned: the temporary directory is the person's own.
func owned(string) bool { return true }
