//go:build unix

package dashboard_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gander.dev/gander/conformance/browsertest"
)

// What takes long by nature is not given up, however long the page has waited.
func TestLongRestoration(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	var taken struct{ Filename string }
	w.ask("POST", "/api/snapshots/capture", map[string]string{"label": "first"}, &taken)
	w.ask("POST", "/api/sandbox/pause", map[string]string{"runId": run}, nil)
	pipe := filepath.Join(w.Dir, "snapshots", taken.Filename) // whose reading waits for us
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.page(browsertest.Options{})
	p.WaitText("#controls", "Paused")
	p.Click("#tab-snapshots")
	p.WaitText("#view-snapshots li", "first")
	p.Eval(`(() => {
		window.overdue = [];
		AbortSignal.timeout = () => {
			const c = new AbortController();
			window.overdue.push(() => c.abort(new DOMException("it has taken too long", "TimeoutError")));
			return c.signal;
		};
	})()`, nil)
	p.ClickText("#view-snapshots", "Restore")
	p.ClickText("dialog", "Replace the workspace")
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when it reads
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close() // where the test ends early
	p.WaitText("#toasts", "being restored")
	p.Wait("the button to wait", `document.querySelector('#view-snapshots [aria-label="Restore first"]').disabled`)
	p.Eval(`window.overdue.forEach((f) => f())`, nil)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	p.WaitText("#toasts", "The snapshot was not restored: the file of snapshot 1 is not what it was")
	p.Wait("the button to be there again", `!document.querySelector('#view-snapshots [aria-label="Restore first"]').disabled`)
	p.Clean(w.URL, "409")
}
