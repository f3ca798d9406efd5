//go:build !unix

package canary

// nonblock is nothing where there are no pipes in directories.
const nonblock = 0
