// Command gotest runs go test and prints what go test prints, and appends how long each test took to
// a file, in lines of seconds, package and name:
//
//	gotest TIMES [ARGUMENT…]
//
// The arguments are those of go test. The Makefile runs tests with it, and .ci/parts sorts
// the file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if _, failed := errors.AsType[*exec.ExitError](err); !failed {
			fmt.Fprintln(os.Stderr, "gotest:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: gotest TIMES [ARGUMENT…]")
	}
	err := os.MkdirAll(filepath.Dir(args[0]), 0o755)
	if err != nil {
		return err
	}
	times, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args[1:]...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = convert(events, os.Stdout, times)
	if err != nil {
		_, _ = io.Copy(os.Stderr, events) // go test must not wait for a reader
	}
	return errors.Join(cmd.Wait(), err, times.Close())
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// line is output of a test or of one of its subtests.
type line struct{ test, text string }

// convert writes what go test says without -v to out, and how long tests took to times. It
// keeps the output of a test until it knows that the test has failed.
func convert(events io.Reader, out, times io.Writer) error {
	said, passed := map[string][]line{}, map[string]bool{}
	flush := func(test string) {
		for _, l := range said[test] {
			if !passed[l.test] {
				_, _ = io.WriteString(out, l.text)
			}
		}
		delete(said, test)
	}
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what go test says: %w", err)
		}
		name, _, sub := strings.Cut(e.Test, "/")
		test, root := e.Package+" "+e.Test, e.Package+" "+name
		switch e.Action {
		case "output", "build-output":
			switch {
			case e.Test != "" && !strings.HasPrefix(e.Output, "=== "):
				said[root] = append(said[root], line{test, e.Output})
			case e.Test == "" && e.Output != "PASS\n":
				for left := range said { // tests that had not ended when their program did
					if strings.HasPrefix(e.Output, "FAIL\t") && strings.HasPrefix(left, root) {
						flush(left)
					}
				}
				_, _ = io.WriteString(out, e.Output)
			}
		case "pass", "skip", "fail":
			passed[test] = e.Action != "fail"
			if e.Test != "" && !sub {
				flush(root)
				_, _ = fmt.Fprintf(times, "%.1f %s %s\n", e.Elapsed, e.Package, e.Test)
			}
		}
	}
}
