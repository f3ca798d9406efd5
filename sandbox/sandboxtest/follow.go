package sandboxtest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// TestRulesFollow tests that a sandbox that runs keeps the rules of now, the
// person's own and the project's, and prints how long that takes. owner is as for
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
	for _, tt := range []struct {
		name, path, text string
		closes           bool
	}{
		{"a person's file that was not there", own, "*.mine\n", true},
		{"the person's file opens", own, "*.other\n", false},
		{"the person's file closes", own, "*.mine\n", true},
		{"the person's file opens again", own, "\n", false},
		{"a project's file that was not there", filepath.Join(spec.WorkingDir, ".gooseignore"), "*.mine\n", true},
		{"the project's file opens", filepath.Join(spec.WorkingDir, ".gooseignore"), "*.other\n", false},
		{"the project's file closes", filepath.Join(spec.WorkingDir, ".gooseignore"), "*.mine\n", true},
	} {
		until := "until read -r x < x.mine; do :; done"
		if tt.closes {
			until = "while read -r x < x.mine; do :; done"
		}
		p := Start(t, sb, "echo spins; exec 2>/dev/null; "+until+"; date +%s%N")
		if readLine(t, p.Stdout()) != "spins" {
			t.Fatal("the reader did not start")
		}
		begin := time.Now()
		save(tt.path, tt.text)
		at, err := strconv.ParseInt(readLine(t, p.Stdout()), 10, 64)
		if err != nil {
			t.Fatalf("%s: waited for the rules to be kept: %v", tt.name, err)
		}
		t.Logf("%s: kept after %v (goal 100ms, on a machine with nothing else to do)", tt.name, time.Unix(0, at).Sub(begin).Round(time.Millisecond))
		Kill(t, p)
	}
}
