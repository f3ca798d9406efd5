package shell_test

import (
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
)

// TestOrderOfStreams: writes 10 ms apart come in their order. Of writes at once the share is
// reported; nobody promises it.
func TestOrderOfStreams(t *testing.T) {
	r := newRunner(t, shell.Options{Env: env(newMark())})
	const apart = `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $i; sleep 0.01; echo $i >&2; sleep 0.01; done`
	var want strings.Builder
	for i := range 15 {
		want.WriteString(strings.Repeat(itoa(i+1)+"\n", 2))
	}
	wrong := 0
	for range 3 { // 90 writes: on a busy machine one of them may be late
		if got := run(t, r, shell.Command{Line: apart}).Merged.Shown; got != want.String() {
			wrong++
		}
	}
	if wrong > 1 {
		t.Errorf("%d of 3 runs are out of order", wrong)
	}
	inOrder := 0
	for range 50 {
		if run(t, r, shell.Command{Line: "echo a; echo b >&2; echo c"}).Merged.Shown == "a\nb\nc\n" {
			inOrder++
		}
	}
	t.Logf("writes at once: %d of 50 in order", inOrder)
}
