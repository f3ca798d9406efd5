//go:build !unix

package files

// noWait is nothing here: named pipes are no part of the file system.
const noWait = 0
