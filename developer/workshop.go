package developer

import (
	"errors"
	"os"
	"path/filepath"

	"gander.dev/gander/developer/analyze"
	"gander.dev/gander/developer/editor"
	"gander.dev/gander/developer/screen"
	"gander.dev/gander/developer/shell"
)

// workshop is what the tools of one server share.
type workshop struct {
	o       Options
	spaces  *Spaces
	runner  *shell.Runner
	closers []func() error // in the order of making
}

func newWorkshop(o Options) (*workshop, error) {
	w := &workshop{o: o}
	ignore := ""
	if o.ConfigDir != "" {
		ignore = filepath.Join(o.ConfigDir, ".gooseignore")
	}
	w.spaces = NewSpaces(SpacesOptions{
		WorkingDir: o.WorkingDir, HomeDir: o.HomeDir, AppDataDir: o.AppDataDir, GlobalIgnore: ignore, Roots: o.Roots, TempDir: os.TempDir(), Environment: o.Environ, Buffers: o.Buffers, Logger: o.Log,
	})
	w.closers = append(w.closers, w.spaces.Close)
	runner, err := newShellRunner(o)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.runner = runner
	w.closers = append(w.closers, runner.Close)
	return w, nil
}

// tools is the inventory of the profile.
func (w *workshop) tools() []Tool {
	tools := w.classic()
	if w.o.Profile == Current {
		tools = w.current()
	}
	if w.o.Jobs {
		tools = append(tools, jobsTool(w.runner, w.spaces))
	}
	for i := range tools {
		if name := tools[i].Name; name == "shell" || name == "jobs" {
			tools[i].Description += keeperNotes[w.o.Keeper]
		}
	}
	return tools
}

func (w *workshop) classic() []Tool {
	seen := screen.New(screen.Options{Display: variable(w.o.Environ, "DISPLAY"), Wayland: variable(w.o.Environ, "WAYLAND_DISPLAY")})
	return []Tool{
		shellTool(w.runner, w.spaces),
		textEditorTool(editor.New(editor.Options{}), w.spaces),
		analyzeTool(analyze.New(analyze.Options{Log: w.o.Log}), w.spaces),
		imageProcessorTool(w.spaces),
		listWindowsTool(seen),
		screenCaptureTool(seen),
	}
}

func (w *workshop) current() []Tool {
	e := editor.New(editor.Options{HistoryBytes: -1}) // this goose had no undo
	return []Tool{
		currentShellTool(w.runner, w.spaces),
		writeTool(e, w.spaces),
		editTool(e, w.spaces),
		treeTool(w.spaces),
		readImageTool(w.spaces),
		currentAnalyzeTool(analyze.New(analyze.Options{Log: w.o.Log}), w.spaces),
	}
}

// keeperNotes say in descriptions of tools how ignore rules are kept, so that a model does
// not take a refusal for a fault and a person not a check for a wall.
var keeperNotes = map[Keeper]string{
	KeptByWords: "\n\nFiles that .gooseignore names are off limits. Commands that name one are refused; this is a guard that reads the command, not a wall around the files.",
	KeptByKernel: "\n\nFiles that .gooseignore names are closed: the kernel keeps commands, and all that they start, from reading or changing them (\"Permission denied\"), and from changing a .gooseignore." +
		" Set-uid programs (sudo), mounts and namespaces of one's own (unshare, bwrap, sandboxes of browsers) do not work.",
	KeptByName: "\n\nFiles that .gooseignore names are closed: macOS keeps commands, and all that they start, from reading or changing them (\"Operation not permitted\"), and from changing a .gooseignore." +
		" Set-uid programs (sudo) do not work.",
	KeptBySandbox: "\n\nFiles that .gooseignore names are closed by the sandbox that commands run in (\"Permission denied\").",
}

// close ends what the tools keep, the last made first.
func (w *workshop) close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	return errors.Join(errs...)
}
