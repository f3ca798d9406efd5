package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/developer/guard"
	"gander.dev/gander/developer/shell"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/rules/ignore"
)

// newShellRunner makes what runs the commands of a server's tools.
func newShellRunner(o Options) (*shell.Runner, error) {
	so := shell.Options{
		Env: o.Environ, WorkingDir: o.WorkingDir, BashEnv: o.BashEnv, LoginPath: o.LoginPath, Log: o.Log,
		KeepRules: o.Keeper == KeptByKernel || o.Keeper == KeptByName, NeedRules: o.NeedKernel,
	}
	if o.ConfigDir != "" {
		so.OwnRules = filepath.Join(o.ConfigDir, ignore.FileName)
	}
	if o.Profile == Current {
		so.Shells = currentShells(variable(o.Environ, "GOOSE_SHELL"))
	}
	return shell.New(so)
}

// currentShells are those that goose 1.52 looks for: not the person's own.
func currentShells(named string) []string {
	switch {
	case named != "":
		return []string{named}
	case runtime.GOOS == "windows":
		return []string{"cmd"}
	}
	return []string{"bash", "sh", "/bin/sh"}
}

// shellParams are the arguments of the shell tools.
type shellParams struct {
	command *string
	timeout *json.Number
}

func shellArguments(raw json.RawMessage) (p shellParams, err error) {
	members, err := argumentMembers(raw)
	if err == nil {
		err = errors.Join(argument(members, "command", &p.command), argument(members, "timeout_secs", &p.timeout))
	}
	if err == nil && p.command == nil {
		err = errors.New("missing field `command`")
	}
	return p, err
}

// seconds is the time that was asked for; more than can be counted is no limit.
func (p shellParams) seconds() time.Duration {
	if p.timeout == nil {
		return 0
	}
	n, err := p.timeout.Int64()
	if err != nil || n > math.MaxInt64/int64(time.Second) {
		return 0
	}
	return time.Duration(n) * time.Second
}

// shellCommand is a call as a command. Lines without any text are not shown live:
// no client shows them.
func shellCommand(call Call, line string) shell.Command {
	c := shell.Command{Line: line, Dir: call.WorkingDir, SessionID: call.SessionID}
	if call.Output != nil {
		c.Output = func(stream, text string) {
			if strings.TrimSpace(text) != "" {
				call.Output(Output{stream, text})
			}
		}
	}
	return c
}

const (
	shellEmpty     = "Shell command cannot be empty"
	shellCancelled = "Shell command was cancelled by user"
)

// shellError is a failure to run a command, as the protocol reports it.
func shellError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return &Error{InternalError, shellCancelled}
	case errors.Is(err, sandbox.ErrGone):
		return &Error{InternalError, "The command was ended together with everything that the shell ran: its supervisor was killed. Try again."}
	case errors.Is(err, shell.ErrClosed):
		return &Error{InternalError, "The server is ending; the command was ended or not run."}
	}
	return &Error{InternalError, err.Error()}
}

const shellOutcomeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ShellOutcome",
  "type": "object",
  "properties": {
    "exitCode": {"description": "The exit code; 128 and its number when a signal ended the command.", "type": "integer"},
    "signal": {"description": "The name of the signal that ended the command.", "type": ["string", "null"]},
    "timedOut": {"type": "boolean"},
    "cancelled": {"type": "boolean"},
    "truncated": {"description": "Whether the text of the result is less than all of the output.", "type": "boolean"},
    "totalBytes": {"description": "The size of the output.", "type": "integer", "minimum": 0},
    "savedTo": {"description": "The file that has the output.", "type": ["string", "null"]}
  },
  "required": ["exitCode", "signal", "timedOut", "cancelled", "truncated", "totalBytes", "savedTo"]
}`

// shellOutcome tells how a command ended, by shellOutcomeSchema. One that was cancelled has no
// result, but an error.
func shellOutcome(r shell.Result) *Outcome {
	o := struct {
		ExitCode   int     `json:"exitCode"`
		Signal     *string `json:"signal"`
		TimedOut   bool    `json:"timedOut"`
		Cancelled  bool    `json:"cancelled"`
		Truncated  bool    `json:"truncated"`
		TotalBytes int64   `json:"totalBytes"`
		SavedTo    *string `json:"savedTo"`
	}{ExitCode: r.Code, TimedOut: r.TimedOut, Truncated: r.Merged.Cut, TotalBytes: r.Merged.Bytes}
	text := fmt.Sprintf("[exit code %d", r.Code)
	if r.Signal != "" {
		o.Signal = &r.Signal
		text += ", signal " + r.Signal
	}
	if r.TimedOut {
		text += ", timed out"
	}
	if r.Merged.Cut {
		text += ", output truncated"
	}
	if r.Merged.File != "" {
		o.SavedTo = &r.Merged.File
	}
	structured, err := json.Marshal(o)
	if err != nil {
		panic(err) // it is numbers and strings
	}
	return &Outcome{Structured: structured, Text: text + "]"}
}

// exitNote says how a command ended when that is worth saying.
func exitNote(r shell.Result, timeout time.Duration) string {
	switch {
	case r.TimedOut:
		return fmt.Sprintf("Command timed out after %d seconds", int64(timeout/time.Second))
	case r.Signal != "":
		return fmt.Sprintf("Command exited with code %d (%s)", r.Code, r.Signal)
	case r.Code != 0:
		return fmt.Sprintf("Command exited with code %d", r.Code)
	}
	return ""
}

// needsNamespaces are the words of programs that cannot make namespaces or mounts.
var needsNamespaces = regexp.MustCompile(`(?i)new namespace|user namespace|unshare(?: failed)?: |cannot clone: |no usable sandbox|(?m:^)mount: .*(?:permission denied|not permitted)|cannot change root directory`)

// needsPrivileges are the words of set-uid programs that have not become another user and
// say so. Others (su) take it for a wrong password.
var needsPrivileges = regexp.MustCompile(`(?i)no new privileges|effective uid is not 0|must be (?:setuid root|suid|superuser)`)

// keptNote says why a command failed when it is for what holding commands, or the kernel's
// keeping of rules, takes.
func keptNote(run *shell.Runner, command string, r shell.Result) string {
	switch text := r.Merged.Shown; {
	case r.Code == 0 || !run.KeepsRules():
	case needsPrivileges.MatchString(text) || slices.ContainsFunc(guard.Programs(command), isSetUID):
		return "Set-uid programs (sudo, su, mount) do not work while the kernel keeps .gooseignore; a server started with --enforce off permits them."
	case needsNamespaces.MatchString(text):
		return "Namespaces and mounts of one's own do not work while the kernel keeps .gooseignore; a server started with --enforce off permits them."
	}
	return ""
}

// isSetUID reports whether a program runs as the owner of its file, or with its group's rights.
func isSetUID(program string) bool {
	path, err := exec.LookPath(program)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0
}

// leftNote says what a command left running.
func leftNote(r shell.Result) string {
	if len(r.Left) == 0 {
		return ""
	}
	note := "Still running in the background: " + memberNames(r.Left) + ". It ends with this session; kill it when it is no longer needed."
	if !r.Drained && r.Merged.File != "" {
		note += " What it prints goes to " + r.Merged.File + "."
	}
	return note
}

func memberNames(members []supervise.Member) string {
	var names []string
	for _, m := range members {
		names = append(names, fmt.Sprintf("%d (%s)", m.PID, clip(m.Name)))
	}
	return strings.Join(names, ", ")
}

// joinNotes puts notes behind a text, each after a blank line.
func joinNotes(text string, notes ...string) string {
	for _, note := range notes {
		if note == "" {
			continue
		}
		if text != "" {
			text = strings.TrimSuffix(text, "\n") + "\n\n"
		}
		text += note
	}
	return text
}
