//go:build unix

package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// meanwhile lets the host act for Rounds at least, until the attempt has made as many, and
// then tells it to stop. The function that it returns, for when the attempt is over, waits
// for that.
func (r *run) meanwhile(act, dir, temporary string) func() error {
	do := hostActs()[act]
	over, done := make(chan struct{}), make(chan error, 1)
	goesOn := func(i int, began time.Time) bool {
		select {
		case <-over:
			return false
		default:
		}
		if i < r.o.Rounds || time.Since(began) < shortestRace {
			return true
		}
		_, err := os.Lstat(filepath.Join(dir, enoughName))
		return err != nil
	}
	go func() { // ends by itself
		var err error
		if do == nil {
			err = fmt.Errorf("there is no act %q of the host", act)
		} else {
			awaitFile(filepath.Join(dir, readyName), over)
		}
		for i, began := 0, time.Now(); err == nil && goesOn(i, began); i++ {
			if err = do(dir, temporary, r.secret, i); i%10 == 9 {
				time.Sleep(time.Millisecond) // on a busy machine the readers would not run at all
			}
		}
		done <- errors.Join(err, os.WriteFile(filepath.Join(dir, stopName), nil, 0o644))
	}()
	return func() error {
		close(over)
		return <-done
	}
}

// shortestRace is how long the host acts at least.
const shortestRace = 500 * time.Millisecond

// awaitFile returns when an attempt has made a file, by which it says that it is at
// work, or is over. One that never does is judged by what it says.
func awaitFile(path string, over <-chan struct{}) {
	for deadline := time.Now().Add(timeLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		select {
		case <-over:
			return
		default:
		}
	}
}
