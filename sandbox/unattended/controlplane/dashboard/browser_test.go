package dashboard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/conformance/browsertest"
	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane"
)

// A person starts a run, watches it, changes the prompt, steers it and stops it.
func TestStartWatchSteerStop(t *testing.T) {
	w := newWorld(t)
	p := w.page(browsertest.Options{})
	var address string
	p.Eval("location.href", &address)
	if strings.Contains(address, "token") {
		t.Errorf("the token is still in the address: %s", address)
	}

	p.Click("#start-button")
	p.WaitText("dialog", "run gander agent install other")
	p.Wait("an agent that is not there cannot be chosen", `document.querySelector("dialog input[value=other]").disabled`)
	p.Shot("start")
	p.Fill("dialog textarea", "Mend the loader.")
	p.Click("dialog input[value=opencode]")
	p.ClickText("dialog", "Start")
	p.WaitText("#runs", "opencode")
	var list struct {
		Runs []controlplane.Run
	}
	w.ask("GET", "/api/runs", nil, &list)
	if len(list.Runs) != 1 || list.Runs[0].Agent != "opencode" || list.Runs[0].Prompt.Content != "Mend the loader." {
		t.Fatalf("started %+v", list.Runs)
	}
	run := list.Runs[0].RunID

	for n := int64(1); n <= 3; n++ {
		w.Fleet.Emit(run, iteration(n)...)
	}
	w.Fleet.Emit(run,
		telemetry.Event{Type: telemetry.StateChange, State: telemetry.Running},
		telemetry.Event{Iteration: 4, Type: telemetry.IterationStart},
		telemetry.Event{Iteration: 4, Type: telemetry.ToolUse, Tool: "shell", ToolCallID: "c", Summary: "shell: sleep", Content: `{"command":"sleep 60"}`})
	p.WaitText(".stream", "Iteration 4")
	p.WaitText("#view-iterations", "#3")
	p.WaitText(".stream .badge.open", "running")
	open := func(text string) {
		t.Helper()
		p.Eval(fmt.Sprintf(`[...document.querySelectorAll(".stream section:nth-of-type(3) details")].find((d) => d.innerText.includes(%q)).open = true`, text), nil)
	}
	open("text_editor")
	p.WaitText(".diff .added", "n := 4 // with the header")
	p.WaitText(".arguments dt", "path")
	open("shell")
	p.WaitText(".output", "got 3, want 4")
	p.Shot("watch")

	p.Click("#tab-prompt")
	p.Wait("the run's own prompt", `document.querySelector("#view-prompt textarea").value === "Mend the loader."`)
	p.Fill("#view-prompt textarea", "Mend the loader, then its tests.")
	p.ClickText("#view-prompt", "Save")
	p.WaitText("#view-prompt .versions", "then its tests")
	w.ordered("prompt " + run)
	p.Fill("#view-prompt textarea", "A draft of mine")
	w.ask("PUT", "/api/prompt?run="+run, map[string]string{"content": "Somebody else's."}, nil)
	p.WaitText("#view-prompt .warning", "changed by somebody else")
	p.Shot("prompt-conflict")
	p.ClickText("#view-prompt", "Take theirs")
	p.Wait("their prompt", `document.querySelector("#view-prompt textarea").value === "Somebody else's."`)

	p.Click("#start-button")
	p.WaitText("dialog", "at work in its own folder")
	p.Wait("an agent that is at work cannot be chosen", `document.querySelector("dialog input[value=opencode]").disabled && !document.querySelector("dialog input[value=goose]").disabled`)
	p.ClickText("dialog", "Cancel")

	p.ClickText("#controls", "Cancel iteration")
	w.ordered("cancel " + run)
	p.ClickText("#controls", "Pause")
	w.ordered("pause " + run)
	w.Fleet.Emit(run, telemetry.Event{Iteration: 4, Type: telemetry.IterationEnd, Status: "cancelled", Summary: "Cancelled"})
	p.WaitText(".stream .badge.lost", "no result")
	p.ClickText("#controls", "Step")
	w.ordered("step " + run)
	p.ClickText("#controls", "Resume")
	w.ordered("resume " + run)

	p.Click("#tab-mailbox")
	p.Fill("#view-mailbox textarea", "Keep the old format.")
	p.ClickText("#view-mailbox", "Send")
	w.ordered("message " + run + " Keep the old format.")
	p.WaitText("#view-mailbox .message", "Keep the old format.")

	p.ClickText("#controls", "Stop")
	p.WaitText("dialog", "Stop this run?")
	p.ClickText("dialog", "Stop the run")
	w.ordered("stop " + run)
	p.WaitText("#controls", "Stopped")
	p.Click("#history-button")
	p.WaitText("dialog .history", "opencode")
	p.Clean(w.URL)
}

// Two runs beside each other; each stream has its own events.
func TestSideBySide(t *testing.T) {
	w := newWorld(t)
	goose, opencode := w.run("goose"), w.run("opencode")
	p := w.page(browsertest.Options{Dark: true, Width: 1600, Height: 950})
	w.Fleet.Emit(goose, iteration(1)...)
	w.Fleet.Emit(opencode, iteration(1)...)
	w.Fleet.Emit(opencode, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Unready, Reason: "the model answered 503 four times", Until: time.Now().Add(10 * time.Minute).UnixMilli()})
	p.ClickText("#top", "Side by side")
	p.Wait("two streams", `document.querySelectorAll(".stream").length === 2`)
	for run, others := range map[string]string{goose: "", opencode: "Model unavailable"} {
		p.WaitText(fmt.Sprintf(".stream[data-run=%q]", run), "Completed: 2 actions")
		p.WaitText(fmt.Sprintf(".stream[data-run=%q]", run), others)
	}
	p.Wait("the countdown", `[...document.querySelectorAll(".countdown")].some((el) => /again in \d/.test(el.innerText))`)
	p.Press("b")
	p.Press("b")
	p.Press("[")
	p.Wait("the run that is chosen", fmt.Sprintf(`document.querySelector('[data-card="%s"]').getAttribute("aria-pressed") === "true"`, goose))
	p.WaitText(fmt.Sprintf("[data-card=%q]", opencode), "Model unavailable") // its state came, besides the event
	var first string                                                         // what the controls show in the moment in which they show the other run
	p.Eval(fmt.Sprintf(`new Promise((resolve) => {
		new MutationObserver(() => resolve(document.querySelector("#controls").innerText)).observe(document.querySelector("#controls"), { childList: true, characterData: true, subtree: true });
		document.querySelector('[data-card="%s"]').click();
	})`, opencode), &first)
	if !strings.Contains(first, "503") || !strings.Contains(first, "again in") {
		t.Errorf("the line of the wait comes later, and moves the page; first there was %q", first)
	}
	p.Shot("side-by-side")
	p.Clean(w.URL)
}

// Files of the workspace, a snapshot of it, and the way back.
func TestFilesAndSnapshots(t *testing.T) {
	w := newWorld(t)
	run := w.run("goose")
	space := filepath.Join(w.Dir, "workspaces", "goose")
	name := "<b>name\u202Egnp.go"
	for file, text := range map[string]string{"load.go": "package load // <script>", "sub/deep.txt": "deep", name: "x"} {
		path := filepath.Join(space, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := w.page(browsertest.Options{})
	p.Click("#tab-files")
	p.WaitText("#view-files", "<b>name⟨U+202E⟩gnp.go")
	p.Click(`#view-files [aria-label="File load.go"]`)
	p.WaitText("#view-files .viewer", "package load // <script>")
	p.Shot("files")
	p.Click(`#view-files [aria-label="Folder sub"]`)
	p.WaitText("#view-files .files", "deep.txt")
	p.ClickText("#view-files .crumbs", "workspace")
	p.WaitText("#view-files .files", "load.go")

	p.Click("#tab-snapshots")
	p.Fill("#view-snapshots input", "before <i>")
	p.ClickText("#view-snapshots", "Take a snapshot")
	p.WaitText("#view-snapshots li", "before <i>")
	if err := os.WriteFile(filepath.Join(space, "load.go"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ask("POST", "/api/sandbox/pause", map[string]string{"runId": run}, nil)
	p.WaitText("#controls", "Paused")
	p.ClickText("#view-snapshots", "Restore")
	p.ClickText("dialog", "Replace the workspace")
	p.WaitText("#toasts", "as it was then")
	if text, err := os.ReadFile(filepath.Join(space, "load.go")); err != nil || string(text) != "package load // <script>" {
		t.Errorf("after the restoration load.go is %q, %v", text, err)
	}
	p.WaitText("#view-snapshots", "before restoring")
	for left := 1; left >= 0; left-- {
		p.ClickText("#view-snapshots", "Delete")
		p.ClickText("dialog", "Delete")
		p.Wait("one snapshot less", fmt.Sprintf(`document.querySelectorAll("#view-snapshots li button.danger").length === %d && !document.querySelector("dialog")`, left))
	}
	p.WaitText("#view-snapshots", "No snapshot yet")
	p.Clean(w.URL)
}

func TestTokenIsAskedFor(t *testing.T) {
	w := newWorld(t)
	w.Fleet.Emit(w.run("goose"), iteration(1)...)
	p := browsertest.Start(t, browsertest.Options{})
	p.Open(w.URL + "/")
	p.WaitText("dialog", "serve.token")
	p.Fill("dialog input", "a token that is wrong")
	p.ClickText("dialog", "Open")
	p.WaitText("dialog", "not, or no longer, right")
	p.Shot("token")
	p.Fill("dialog input", w.Token)
	p.ClickText("dialog", "Open")
	p.WaitText("#connection", "Live")
	p.WaitText(".stream", "Completed: 2 actions")
	p.Clean(w.URL, "401")
}
