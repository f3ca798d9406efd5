//go:build !linux

package supervise

import "net/netip"

// openRoad opens none: sandboxes of this system have no network of their own.
func (c *client) openRoad() error { return nil }

func listening() []netip.AddrPort { return nil }
