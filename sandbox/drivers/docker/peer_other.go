//go:build !linux

package docker

import (
	"net"

	"gander.dev/gander/sandbox/drivers/registry"
)

// peer is not known: containers are processes of another system.
func peer(net.Conn) registry.ProcessRef { return registry.ProcessRef{} }

// ofUser says whether the daemon at host runs as an ordinary user. Here it is in
// a virtual machine, which maps users by itself.
func ofUser(string) bool { return false }
