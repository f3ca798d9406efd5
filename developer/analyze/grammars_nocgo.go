//go:build !cgo

package analyze

// grammars are none: tree-sitter is C.
func grammars() []*language { return nil }
