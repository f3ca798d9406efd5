// Package early makes the program that imports it a supervisor when it was started as
// one, and that before most of the program's other packages are initialised.
//
// A sandbox takes several processes of the same program, and each command one more. What
// they need is a small part of a large program, whose packages take longer to initialise
// than the supervisor takes to start. Go initialises packages in the order of their
// import paths, each as soon as everything that it imports is ready (Go specification,
// "Program initialization"): this one is ready when the supervisor is.
package early

import (
	"os"

	"gander.dev/gander/sandbox/inside/supervise"
)

func init() {
	if len(os.Args) < 2 || os.Args[1] != supervise.Verb {
		return
	}
	// The goroutine that initialises packages is bound to its thread, this one is not.
	code := make(chan int)
	go func() { code <- supervise.Main(os.Args[1:]) }()
	os.Exit(<-code)
}
