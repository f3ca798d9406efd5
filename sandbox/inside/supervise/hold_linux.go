package supervise

import "time"

// hold implements holder.
func (l *linux) hold(atMost time.Duration) func() bool {
	if l.closure == nil {
		return nil
	}
	return l.closure.guard.Hold(atMost)
}
