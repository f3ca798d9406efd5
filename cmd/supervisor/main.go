// Command supervisor is the supervisor alone, without the rest of gander, for package
// sandbox/drivers/local, which carries it in builds with the tag embedded: a sandbox takes three
// processes of it, and a program of a tenth of the size starts in half the time and needs
// less memory.
package main

import (
	"os"

	"gander.dev/gander/sandbox/inside/supervise"
)

func main() {
	if len(os.Args) == 1 {
		return // whether it can be run is what was asked
	}
	if len(os.Args) == 2 { // the first of them, which lists of processes name by the number of a file
		_ = os.WriteFile("/proc/self/comm", []byte("gander"), 0)
	}
	os.Exit(supervise.Main(os.Args[1:]))
}
