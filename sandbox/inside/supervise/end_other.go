//go:build !linux

package supervise

import "context"

func (t *directTree) members() []proc { return t.group.members() }

// polite signals the group: what left it is not asked, only killed.
func (t *directTree) polite(ctx context.Context) {
	_ = t.group.signal("TERM")
	for pass := 0; ; pass++ {
		select {
		case <-t.empty:
			return
		default:
		}
		if len(t.group.members()) == 0 || pause(ctx, pass) != nil {
			return
		}
	}
}
