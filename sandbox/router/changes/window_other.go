//go:build !linux

package changes

import "time"

// clockWindow is for how long after a file's change time another change may have
// the same one.
func clockWindow(string) time.Duration { return 2 * time.Second }
