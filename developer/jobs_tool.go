package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/developer/shell"
)

const jobsDescription = `Run commands in the background, and look after what runs there.

The "action" argument says what to do:
- start: run command, and return at once with the id of the job. With timeout_secs it is ended after that time.
- list: show the jobs of this session, also what commands of the shell tool left running.
- read: show what the job id has printed: the end of it, or the lines first_line to last_line.
- wait: wait until the job id has ended, at most timeout_secs (60 when it is not given), and show what read shows.
- kill: end the job id and everything that it started, and show what read shows.

Jobs end with this session.`

const jobsSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "JobsParams",
  "type": "object",
  "properties": {
    "action": {"description": "What to do.", "type": "string", "enum": ["start", "list", "read", "wait", "kill"]},
    "command": {"description": "For start: the command.", "type": ["string", "null"]},
    "id": {"description": "For read, wait and kill: which job.", "type": ["string", "null"]},
    "first_line": {"description": "For read: the first line to show, counted from 1.", "type": ["integer", "null"], "minimum": 1},
    "last_line": {"description": "For read: the last line to show.", "type": ["integer", "null"], "minimum": 1},
    "timeout_secs": {"description": "For start: after how many seconds the job is ended. For wait: how many seconds to wait.", "type": ["integer", "null"], "minimum": 0}
  },
  "required": ["action"]
}`

// defaultJobWait is how long wait waits: less than clients do.
const defaultJobWait = 60 * time.Second

// jobsReadBytes is how much of the lines that were asked for is shown at once.
const jobsReadBytes = 40_000

type jobsParams struct {
	shellParams
	action, id  *string
	first, last *int64
}

func jobsArguments(raw json.RawMessage) (p jobsParams, err error) {
	members, err := argumentMembers(raw)
	if err != nil {
		return p, err
	}
	err = errors.Join(
		argument(members, "action", &p.action), argument(members, "id", &p.id),
		argument(members, "command", &p.command), argument(members, "timeout_secs", &p.timeout),
		argument(members, "first_line", &p.first), argument(members, "last_line", &p.last),
	)
	if err == nil && p.action == nil {
		err = errors.New("missing field `action`")
	}
	return p, err
}

// jobsTool is for background jobs. No goose had it; it is there when it is asked for.
func jobsTool(r *shell.Runner, s *Spaces) Tool {
	return Tool{
		Name:        "jobs",
		Description: jobsDescription,
		InputSchema: json.RawMessage(jobsSchema),
		Call: func(ctx context.Context, call Call) (Result, error) {
			args, err := jobsArguments(call.Arguments)
			if err != nil {
				return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
			}
			text, err := args.run(ctx, r, s, call)
			if err != nil {
				return Result{}, err
			}
			return Result{Content: []Content{{Text: text}}}, nil
		},
	}
}

func (p jobsParams) run(ctx context.Context, r *shell.Runner, s *Spaces, call Call) (string, error) {
	switch *p.action {
	case "start":
		return p.start(ctx, r, s, call)
	case "list":
		return listJobs(ctx, r.Jobs(call.SessionID)), nil
	case "read", "wait", "kill":
		if p.id == nil {
			return "", &Error{InvalidParams, fmt.Sprintf("Missing 'id' parameter for %s action", *p.action)}
		}
		j, err := r.Job(call.SessionID, *p.id)
		if err != nil {
			return "", &Error{InvalidParams, err.Error()}
		}
		return p.one(ctx, j)
	}
	return "", &Error{InvalidParams, fmt.Sprintf("Unknown action '%s'; the actions are start, list, read, wait, kill", clip(*p.action))}
}

func (p jobsParams) start(ctx context.Context, r *shell.Runner, s *Spaces, call Call) (string, error) {
	if p.command == nil {
		return "", &Error{InvalidParams, "Missing 'command' parameter for start action"}
	}
	if strings.TrimSpace(*p.command) == "" {
		return "", &Error{InvalidParams, shellEmpty}
	}
	if err := s.Guard(call.WorkingDir, *p.command); err != nil {
		return "", err
	}
	j, err := r.Start(ctx, shell.Command{Line: *p.command, Dir: call.WorkingDir, SessionID: call.SessionID, Timeout: p.seconds()})
	if err != nil {
		return "", shellError(ctx, err)
	}
	return fmt.Sprintf("Started %s, process %d. What it prints goes to %s.", j.ID(), j.Info(ctx).PID, whereRest(j.Text(shell.Limits{}))), nil
}

// one is what is done with a single job.
func (p jobsParams) one(ctx context.Context, j *shell.Job) (string, error) {
	var err error
	switch *p.action {
	case "wait":
		err = waitForJob(ctx, j, p.seconds())
	case "kill":
		err = j.Kill(ctx)
	}
	if err != nil {
		return "", shellError(ctx, err)
	}
	if p.first != nil || p.last != nil {
		return p.lines(j)
	}
	t := j.Text(shell.Limits{})
	text := jobState(j.Info(ctx))
	if t.Cut {
		text += "\n" + cutNotice(t)
	}
	return joinNotes(text, t.Shown), nil
}

func waitForJob(ctx context.Context, j *shell.Job, d time.Duration) error {
	if d == 0 {
		d = defaultJobWait
	}
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := j.Wait(short); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

func (p jobsParams) lines(j *shell.Job) (string, error) {
	first, last := int64(1), int64(1)
	if p.first != nil {
		first, last = *p.first, *p.first+shellReadLines-1
	}
	if p.last != nil {
		last = *p.last
	}
	if last < first {
		return "", &Error{InvalidParams, fmt.Sprintf("first_line %d comes after last_line %d", first, last)}
	}
	text, err := j.Lines(first, last, jobsReadBytes)
	if err != nil {
		return "", &Error{InternalError, err.Error()}
	}
	return text, nil
}

// shellReadLines is how many lines are read when no last one is named.
const shellReadLines = 100

func listJobs(ctx context.Context, jobs []*shell.Job) string {
	if len(jobs) == 0 {
		return "No jobs."
	}
	var lines []string
	for _, j := range jobs {
		lines = append(lines, jobState(j.Info(ctx)))
	}
	return strings.Join(lines, "\n")
}

// jobState is a job in one line.
func jobState(i shell.JobInfo) string {
	state := "has ended"
	switch {
	case i.Running && i.Exited:
		state = "runs on in the background: " + memberNames(i.Members)
	case i.Running:
		state = fmt.Sprintf("is running since %s: %s", i.Began.Format(time.TimeOnly), memberNames(i.Members))
	case i.Signal != "":
		state = fmt.Sprintf("ended with code %d (%s)", i.Code, i.Signal)
	case i.Exited:
		state = fmt.Sprintf("ended with code %d", i.Code)
	}
	return fmt.Sprintf("%s %s [%s]", i.ID, state, clip(strings.Join(strings.Fields(i.Line), " ")))
}
