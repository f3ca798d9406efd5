//go:build !embedded

package local

// embedded is empty: the whole program is its supervisor, which starts more slowly.
var embedded []byte
