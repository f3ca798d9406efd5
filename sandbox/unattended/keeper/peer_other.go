//go:build !linux && !darwin

package keeper

import "net"

// samePeer believes the rights of the socket's directory: this system does not say
// whose the other end is.
func samePeer(net.Conn) (bool, error) { return true, nil }
