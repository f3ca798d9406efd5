// Command supervisor is the first process of the tests' containers: linked
// statically, unlike a test binary with the race detector. Linked with
// -X main.sockets=off it is a gander that does not know docker.Verb.
package main

import (
	"os"

	"gander.dev/gander/sandbox/drivers/docker"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/trials/probe"
)

var sockets = "on"

func main() {
	if len(os.Args) > 1 && os.Args[1] == docker.Verb && sockets == "on" {
		os.Exit(docker.Main(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.Verb {
		os.Exit(probe.Main(os.Args[1:], os.Stdin, os.Stdout))
	}
	os.Exit(supervise.Main(os.Args[1:]))
}
