package developer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/developer/shell"
)

const shellDescription = `Run a command in the shell.

What it prints on standard output and standard error is returned together, in the order in which it came, followed by the exit code when that is not 0. Of more than 100 lines (or 40,000 bytes) only the end is returned, with the name of a file that has all of it: read ranges of that file, or better keep the output small or redirect it.

Nobody is at the keyboard: there is no terminal, input is empty, and editors do not open. The command ends with everything that it started when it is cancelled or its timeout is over. Start what goes on, such as a server, in the background with its output redirected: "server > server.log 2>&1 &". It keeps running until the session ends. Each command starts in the working directory, in a fresh shell.`

const shellSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ShellParams",
  "type": "object",
  "properties": {
    "command": {"type": "string"},
    "timeout_secs": {"description": "After how many seconds the command is ended, with everything that it started; what it printed until then is returned. Without it there is no limit.", "type": ["integer", "null"], "format": "uint64", "minimum": 0}
  },
  "required": ["command"]
}`

// shellTool is classic goose's shell: its layout and literals, on commands that
// cannot escape and output that is never lost.
func shellTool(r *shell.Runner, s *Spaces) Tool {
	return Tool{
		Name:        "shell",
		Description: shellDescription,
		InputSchema: json.RawMessage(shellSchema), OutcomeSchema: json.RawMessage(shellOutcomeSchema),
		Call: func(ctx context.Context, call Call) (Result, error) {
			args, err := shellArguments(call.Arguments)
			if err != nil {
				return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
			}
			if strings.TrimSpace(*args.command) == "" {
				return Result{}, &Error{InvalidParams, shellEmpty}
			}
			if err := s.Guard(call.WorkingDir, *args.command); err != nil {
				return Result{}, err
			}
			command := shellCommand(call, *args.command)
			command.Timeout = args.seconds()
			res, err := r.Run(ctx, command)
			if err != nil {
				return Result{}, shellError(ctx, err)
			}
			return classicShellResult(res, command, keptNote(r, command.Line, res)), nil
		},
	}
}

// classicShellResult are two blocks, one for the model and one for the person.
func classicShellResult(r shell.Result, c shell.Command, kept string) Result {
	forModel, forPerson := r.Merged.Shown, r.Merged.Shown
	if t := r.Merged; t.Cut {
		forModel = fmt.Sprintf("private note: output was %d lines and we are only showing the most recent lines, remainder of lines in %s"+
			" do not show tmp file to user, that file can be searched if extra context needed to fulfill request. %s truncated output: \n%s",
			t.Lines, whereRest(t), cutNotice(t), t.Shown)
		forPerson = fmt.Sprintf("NOTE: Output was %d lines, showing only the last %d lines.\n\n%s", t.Lines, t.Lines-t.FirstLine+1, t.Shown)
	}
	notes := []string{exitNote(r, c.Timeout), kept, leftNote(r)}
	return Result{Outcome: shellOutcome(r), Content: []Content{
		{Text: joinNotes(forModel, notes...), Audience: []string{"assistant"}},
		{Text: joinNotes(forPerson, notes...), Audience: []string{"user"}, Priority: new(float64)},
	}}
}

func whereRest(t shell.Text) string {
	if t.File == "" {
		return "no file"
	}
	return t.File
}

// cutNotice says what is not shown and where it is, always in the same form, so that
// a program can read it.
func cutNotice(t shell.Text) string {
	n := fmt.Sprintf("[output: %d bytes, %d lines; shown: lines %d to %d; file: %s; missing in the file: %d bytes",
		t.Bytes, t.Lines, t.FirstLine, t.Lines, whereRest(t), t.Missing)
	if t.Fault != nil {
		n += fmt.Sprintf("; the file is not complete: %v", t.Fault)
	}
	return n + "]"
}
