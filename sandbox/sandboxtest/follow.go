package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// TestRulesFollow tests that a sandbox that runs keeps the rules of now, the
// person's own and the project's, and within the time that is promised. owner is as for
// TestDriver.
func TestRulesFollow(t *testing.T, newDriver NewDriver, owner int) {
	own := filepath.Join(t.TempDir(), "own")
	spec := Spec(t, owner)
	file := filepath.Join(spec.WorkingDir, "x.mine")
	save := func(path, text string) {
		t.Helper()
		temp := path + ".new" // as editors do
		err := os.WriteFile(temp, []byte(text), 0o666)
		if err == nil {
			err = os.Chmod(temp, 0o666)
		}
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save(file, "secret\n")
	spec.Rules = &sandbox.Rules{Own: own}
	sb := Create(t, newDriver(t), spec)
	rulesFile := filepath.Join(spec.WorkingDir, ".gooseignore")
	follow := func(path, text string, closes bool) time.Duration {
		t.Helper()
		until := "until read -r x < x.mine; do :; done"
		if closes {
			until = "while read -r x < x.mine; do :; done"
		}
		p := Start(t, sb, "echo spins; exec 2>/dev/null; "+until+"; date +%s%N")
		if readLine(t, p.Stdout()) != "spins" {
			t.Fatal("the reader did not start")
		}
		begin := time.Now()
		save(path, text)
		at, err := strconv.ParseInt(readLine(t, p.Stdout()), 10, 64)
		if err != nil {
			t.Fatalf("waited for the rules to be kept: %v", err)
		}
		Kill(t, p)
		return time.Unix(0, at).Sub(begin).Round(time.Millisecond)
	}
	for _, tt := range []struct{ name, path string }{{"a person's rules", own}, {"a project's rules", rulesFile}} {
		// The first closes, where there was no file.
		var closed, opened []time.Duration
		for n := 0; n < followTries && (n < 3 || median(closed) > followTime || median(opened) > followTime); n++ {
			closed = append(closed, follow(tt.path, "*.mine\n", true))
			opened = append(opened, follow(tt.path, "*.other\n", false))
		}
		t.Logf("%s: closed after %v, opened after %v", tt.name, closed, opened)
		if median(closed) > followTime || median(opened) > followTime {
			t.Errorf("%s are kept %v after they close a file, and %v after they open it, want %v", tt.name, median(closed), median(opened), followTime)
		}
	}
}

// followTime is what is promised of rules that change. A busy machine has followTries
// changes, the last three of which count.
const (
	followTime  = 100 * time.Millisecond
	followTries = 30
)

// median is that of the last three.
func median(of []time.Duration) time.Duration {
	last := slices.Sorted(slices.Values(of[max(len(of)-3, 0):]))
	return last[len(last)/2]
}
