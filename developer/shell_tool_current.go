package developer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/developer/shell"
)

// What goose 1.52 says of its shell; the name of the shell goes into it.
const (
	currentShellDescription = "Execute a shell command in the current dir. Commands run under `%s` (set GOOSE_SHELL to override) - write command strings in that shell's syntax." +
		" Returns an object with stdout and stderr as separate fields. The output of each stream is limited to up to 2000 lines, and longer outputs will be saved to a temporary file."
	currentShellSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ShellParams",
  "type": "object",
  "properties": {
    "command": {"type": "string"},
    "timeout_secs": {"description": "Maximum time in seconds to allow the command to run before it is killed.\nIf omitted, defaults to DEFAULT_EXTENSION_TIMEOUT.", "type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null}
  },
  "required": ["command"]
}`
	currentShellOutput = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ShellOutput",
  "type": "object",
  "properties": {
    "stdout": {"type": "string"},
    "stderr": {"type": "string"},
    "exit_code": {"type": ["integer", "null"], "format": "int32"},
    "timed_out": {"type": "boolean"},
    "output_truncated": {"type": "boolean"},
    "output_collection_error": {"type": ["string", "null"]},
    "combined_saved_path": {"type": ["string", "null"]}
  },
  "required": ["stdout", "stderr"]
}`
)

// currentTimeout is DEFAULT_EXTENSION_TIMEOUT of goose.
const currentTimeout = 300 * time.Second

// currentLimits are goose's: up to 2000 lines and 50,000 bytes whole, else the last 50
// lines, of at most 10,000 bytes.
var currentLimits = shell.Limits{Lines: 2000, Bytes: 50_000, LastLines: 50, LastBytes: 10_000}

// currentShellTool is the shell of goose 1.52.
func currentShellTool(r *shell.Runner, s *Spaces) Tool {
	return Tool{
		Name:         "shell",
		Title:        "Shell",
		Description:  fmt.Sprintf(currentShellDescription, r.Interpreter().Name()),
		InputSchema:  json.RawMessage(currentShellSchema),
		OutputSchema: json.RawMessage(currentShellOutput),
		Hints:        &Hints{Destructive: true, OpenWorld: true},
		Call: func(ctx context.Context, call Call) (Result, error) {
			args, err := shellArguments(call.Arguments)
			if err != nil {
				return currentFailure("Error: Failed to parse arguments: " + err.Error()), nil
			}
			if strings.TrimSpace(*args.command) == "" {
				return currentFailure("Command cannot be empty."), nil
			}
			if err := s.Guard(call.WorkingDir, *args.command); err != nil {
				return currentFailure(err.Error()), nil
			}
			command := shellCommand(call, *args.command)
			command.Split, command.Limits = true, currentLimits
			if command.Timeout = args.seconds(); command.Timeout == 0 {
				command.Timeout = currentTimeout
			}
			res, err := r.Run(ctx, command)
			if err != nil {
				return currentFailure(shellError(ctx, err).Error()), nil
			}
			return currentShellResult(res, command, keptNote(r, command.Line, res))
		},
	}
}

// currentFailure is a result that says no.
func currentFailure(text string) Result {
	structured, _ := json.Marshal(currentShellStructure{Stderr: text}) // strings always encode
	return Result{Content: []Content{{Text: text, Priority: new(float64)}}, Structured: structured, IsError: true}
}

// currentShellStructure is currentShellOutput.
type currentShellStructure struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	TimedOut  bool   `json:"timed_out,omitempty"`
	Truncated bool   `json:"output_truncated,omitempty"`
	Fault     string `json:"output_collection_error,omitempty"`
	Saved     string `json:"combined_saved_path,omitempty"`
}

func currentShellResult(r shell.Result, c shell.Command, kept string) (Result, error) {
	text := strings.TrimSuffix(r.Merged.Shown, "\n")
	if r.Merged.Bytes == 0 {
		text = "(no output)"
	}
	drain := ""
	if !r.Drained {
		drain = "Output may be incomplete because stream draining timed out after process exit."
	}
	exit := exitNote(r, c.Timeout)
	if exit != "" && r.Merged.Bytes == 0 {
		text = ""
	}
	result := Result{IsError: exit != "", Content: []Content{
		{Text: joinCurrentNotes(text, drain, exit, kept, leftNote(r)), Priority: new(float64)},
	}}
	if r.Merged.Cut {
		result.Content = append(result.Content, Content{Text: currentCutNotice(r.Merged), Priority: new(float64)})
	}
	structured := currentShellStructure{
		Stdout: r.Stdout.Shown, Stderr: r.Stderr.Shown, TimedOut: r.TimedOut,
		Truncated: r.Merged.Cut || r.Stdout.Cut || r.Stderr.Cut, Saved: r.Merged.File,
	}
	if !r.TimedOut {
		structured.ExitCode = &r.Code
	}
	if r.Merged.Fault != nil {
		structured.Fault = r.Merged.Fault.Error()
	}
	var err error
	result.Structured, err = json.Marshal(structured)
	return result, err
}

// joinCurrentNotes keeps the blank lines at the end of a text, as goose does.
func joinCurrentNotes(text string, notes ...string) string {
	for _, note := range notes {
		if note != "" && text != "" {
			text += "\n\n"
		}
		text += note
	}
	return text
}

// currentCutNotice is one block, for the merged output: goose says the same once
// more for each stream.
func currentCutNotice(t shell.Text) string {
	limit := fmt.Sprintf("%d line limit (%d lines total)", currentLimits.Lines, t.Lines)
	if t.Lines <= int64(currentLimits.Lines) {
		limit = fmt.Sprintf("%d byte limit (%d bytes total)", currentLimits.Bytes, t.Bytes)
	}
	if t.File == "" {
		return fmt.Sprintf("[Output exceeded %s. The rest could not be saved: %v]", limit, t.Fault)
	}
	missing := ""
	if t.Missing > 0 {
		missing = fmt.Sprintf(" %d bytes in its middle are missing, where a line says so.", t.Missing)
	}
	return fmt.Sprintf("[Output exceeded %s. Full output saved to %s. Read it with shell commands like `head`, `tail`, or `sed -n '100,200p'` up to %d lines at a time.%s]",
		limit, t.File, currentLimits.Lines, missing)
}
