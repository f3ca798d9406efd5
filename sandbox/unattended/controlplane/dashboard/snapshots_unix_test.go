//go:build unix

package dashboard_test

import (
	"database/sql"
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

// A workspace that a restoration left in part is shown as one, with what to do.
func TestHalfWorkspace(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	w.ask("POST", "/api/sandbox/pause", map[string]string{"runId": run}, nil)
	db, err := sql.Open("sqlite", filepath.Join(w.Dir, "sandbox.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE runs SET torn = 'the workspace is not whole: restore a snapshot again'"); err != nil {
		t.Fatal(err)
	}
	p := w.page(browsertest.Options{})
	p.WaitText("#controls .reason", "restore a snapshot again")
	p.ClickText("#controls", "Resume")
	p.WaitText("#toasts", "restore a snapshot again")
	p.Clean(w.URL, "409")
}
