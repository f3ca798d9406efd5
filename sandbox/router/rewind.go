package router

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sessions"
)

// commandRewind lists the turns of the thread, or puts conversation and files back to before one.
func commandRewind(ctx context.Context, call commandCall) (string, error) {
	s := call.s
	if err := s.transcript.Sync(ctx); err != nil {
		return "", err
	}
	thread, err := s.r.opts.Store.Thread(ctx, s.id)
	if err != nil {
		return "", err
	}
	which, only, _ := strings.Cut(call.args, " ")
	if which == "" {
		return DescribeThread(thread, "/rewind %d", "/rewind %d conversation"), nil
	}
	number, err := strconv.Atoi(which)
	if only = strings.TrimSpace(only); err != nil || only != "" && only != "conversation" {
		return "", fmt.Errorf("%q is not known; say /rewind for the turns, /rewind N to go back to before turn N, or /rewind N conversation to leave the files as they are", call.args)
	}
	to, err := thread.To(number, call.turn.id)
	if err != nil {
		return "", fmt.Errorf("%w; /rewind lists the turns that there are", err)
	}
	files := "The files stay as they are.\n"
	if s.files != nil && only == "" {
		var undone, redone []*changes.Undone
		err := call.holdingNames(ctx, "put back", func(tree *changes.Tree) (err error) {
			undone, redone, err = tree.Rewind(ctx, string(s.id), FilesOf(thread, to))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("nothing was put back: %w. /rewind %d conversation leaves the files as they are", err, number)
		}
		files = DescribeFiles(undone, redone)
	}
	err = s.transcript.Append(sessions.Record{TurnID: call.turn.id, Body: *to})
	if err == nil {
		err = s.transcript.Sync(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("the conversation was not put back, as that could not be written down: %w. %s", err, files)
	}
	s.rewound(to)
	return DescribeRewind(thread, to, number, "/rewind %d") + files, nil
}

// rewound has agents go on as they were at the place that the thread was put back to: with their own
// sessions where these have not gone on since, else with what was said until there.
func (s *session) rewound(to *sessions.Rewind) {
	s.mu.Lock()
	s.last = to.LastTurn
	clear(s.seen)
	for name, id := range to.AgentSessions {
		s.seen[name] = memory{session: id, turn: to.AgentTurns[name]}
	}
	s.mu.Unlock()
	s.restart(false)
}

// FilesOf returns what a rewind does to the files.
func FilesOf(thread *sessions.Thread, to *sessions.Rewind) changes.Target {
	counting, rest := thread.Counting(to)
	out := changes.Target{Back: rest, Again: counting}
	left := map[string]bool{}
	for _, id := range rest {
		left[id] = true
	}
	for _, t := range thread.Turns {
		if t.ID == to.Before {
			out.Since = t.Time
		}
		if left[t.ID] && !t.Left && t.Changed > 0 {
			out.Changed = append(out.Changed, t.ID)
		}
	}
	return out
}

// maxThread bounds the turns that are listed, the last ones.
const maxThread = 40

// DescribeThread lists the turns that a thread can be put back to before, and says how: by commands
// with a %d for the number.
func DescribeThread(thread *sessions.Thread, how, conversation string) string {
	var lines []string
	for _, t := range thread.Turns {
		if t.Left {
			continue
		}
		line := fmt.Sprintf("- **%d** (%s) %s", t.Number, t.Time.Local().Format("15:04"), t.Text)
		switch {
		case t.Changed == 1:
			line += " · 1 file"
		case t.Changed > 1:
			line += fmt.Sprintf(" · %d files", t.Changed)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "There is no turn yet to go back to."
	}
	last := 0
	for _, t := range thread.Turns {
		if !t.Left {
			last = t.Number
		}
	}
	if over := len(lines) - maxThread; over > 0 {
		lines = append([]string{fmt.Sprintf("- … and %d before these, by their numbers", over)}, lines[over:]...)
	}
	return fmt.Sprintf("The turns of this thread:\n%s\n\n`%s` puts conversation and files back to before turn %d; `%s` leaves the files as they are.",
		strings.Join(lines, "\n"), fmt.Sprintf(how, last), last, fmt.Sprintf(conversation, last))
}

// DescribeRewind says what a rewind did to the conversation, and which one takes it back.
func DescribeRewind(thread *sessions.Thread, to *sessions.Rewind, number int, how string) string {
	counting, _ := thread.Counting(to)
	now := map[string]bool{}
	for _, id := range counting {
		now[id] = true
	}
	gone, back := 0, 0
	for _, t := range thread.Turns {
		switch {
		case t.Rewind:
		case !now[t.ID] && !t.Left:
			gone++
		case now[t.ID] && t.Left:
			back++
		}
	}
	text := fmt.Sprintf("The conversation is as it was before turn %d: ", number)
	switch {
	case back > 0 && gone > 0:
		text += fmt.Sprintf("%s taken back, %s there again", turnsWere(gone), turnsWere(back))
	case back > 0:
		text += turnsWere(back) + " there again"
	default:
		text += turnsWere(gone) + " taken back"
	}
	return text + fmt.Sprintf(". An editor may still show them. `%s` takes this back.\n\n", fmt.Sprintf(how, len(thread.Turns)+1))
}

func turnsWere(n int) string {
	if n == 1 {
		return "1 turn is"
	}
	return fmt.Sprintf("%d turns are", n)
}

// DescribeFiles says what a rewind did to each file.
func DescribeFiles(undone, redone []*changes.Undone) string {
	var b strings.Builder
	for _, u := range undone {
		b.WriteString(describeFiles(u, (*changes.Change).Undone))
	}
	for _, u := range redone {
		b.WriteString(describeFiles(u, (*changes.Change).Redone))
	}
	if b.Len() == 0 {
		return "No file had to be changed.\n"
	}
	return b.String()
}
