package show

import (
	"slices"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// RunFlags are the flags of gander run.
type RunFlags struct {
	CWD, Format, Approve, Trace, Session string
	NewSession, NoSession, Continue      bool
	// ReadOnly has the session's sandbox show the project for reading; SetsAccess says that
	// the flag was given.
	ReadOnly, SetsAccess bool
	// Holds says that --approve was given: the agent has to ask before it acts.
	Holds   bool
	Timeout time.Duration
}

func (f *RunFlags) Check() error {
	if !slices.Contains(Formats, f.Format) {
		return cli.UsageError("--format %q: choose one of %s", f.Format, strings.Join(Formats, ", "))
	}
	if !slices.Contains(Approvals, f.Approve) {
		return cli.UsageError("--approve %q: choose one of %s", f.Approve, strings.Join(Approvals, ", "))
	}
	if f.NoSession && (f.NewSession || f.Session != "") {
		return cli.UsageError("--no-session keeps nothing, so that it cannot be given together with --session or --new-session")
	}
	if f.Continue && (f.NewSession || f.NoSession || f.Session != "") {
		return cli.UsageError("--continue goes on with the last session of the directory, so that it cannot be given together with --session, --new-session or --no-session")
	}
	if f.Timeout < 0 {
		return cli.UsageError("--timeout %s is negative; leave it out to wait for ever", f.Timeout)
	}
	return nil
}

// The values of --format and --approve.
var (
	Formats   = []string{FormatText, FormatJSON, FormatQuiet}
	Approvals = []string{ApproveAsk, approveReads, ApproveAll, approveNone}
)

const (
	FormatText  = "text"
	FormatJSON  = "json"
	FormatQuiet = "quiet"

	ApproveAsk   = "ask"
	approveReads = "reads"
	ApproveAll   = "all"
	approveNone  = "none"
)
