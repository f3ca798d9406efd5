//go:build !linux

package files

import "os"

// isAt cannot tell here.
func isAt(*os.File, string) (same, known bool) { return false, false }
