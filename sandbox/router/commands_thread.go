package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// commandReset has agents begin again as if nothing had been said. The thread and
// its transcript keep everything.
func commandReset(ctx context.Context, call commandCall) (string, error) {
	if call.args != "" {
		return "", errors.New("it takes no argument")
	}
	done, err := call.s.forgetAll(ctx)
	if err != nil || !done.Applied {
		return "There is nothing to forget; the next prompt begins anew.", err
	}
	return fmt.Sprintf("The next prompt begins anew: nobody is told of the %d messages so far. They stay in this thread.", done.Messages), nil
}

// forgetAll has agents begin again as if nothing had been said, also where the session
// was stopped.
func (s *session) forgetAll(ctx context.Context) (sessions.Compacted, error) {
	done, err := s.shorten(ctx, func(store *sessions.Store) (sessions.Compacted, error) {
		return store.Prune(ctx, s.id, -1)
	})
	if err != nil {
		return done, err
	}
	s.mu.Lock()
	halted := s.halted != ""
	s.halted = ""
	s.leaks.TakeStop()
	s.mu.Unlock()
	if halted && !done.Applied {
		s.restart(true)
	}
	return done, nil
}

// commandPrune has agents go on with the last messages only.
func commandPrune(ctx context.Context, call commandCall) (string, error) {
	keep := 0
	if call.args != "" {
		n, err := strconv.Atoi(call.args)
		if err != nil || n < 1 {
			return "", fmt.Errorf("how many of the last messages to keep is a number, not %q", call.args)
		}
		keep = n
	}
	done, err := call.s.shorten(ctx, func(store *sessions.Store) (sessions.Compacted, error) {
		return store.Prune(ctx, call.s.id, keep)
	})
	if err != nil || !done.Applied {
		return fmt.Sprintf("All of the %d messages are kept.", done.Kept), err
	}
	return fmt.Sprintf("The agent goes on with the last %d messages; %d older ones stay in this thread only.", done.Kept, done.Messages), nil
}

// commandCompact has agents go on with a summary of the older messages.
func commandCompact(ctx context.Context, call commandCall) (string, error) {
	if call.args != "" {
		return "", errors.New("it takes no argument")
	}
	done, err := call.s.shorten(ctx, func(store *sessions.Store) (sessions.Compacted, error) {
		return store.Compact(ctx, call.s.id, sessions.CompactOptions{FreshAgent: true})
	})
	if err != nil || !done.Applied {
		return fmt.Sprintf("There is nothing to sum up: all of the %d messages are recent.", done.Kept), err
	}
	call.s.showCompaction(ctx, call.turn.id, done.Summary)
	return fmt.Sprintf("The agent goes on with a summary of %d messages and the last %d as they are; all of them stay in this thread.\n\n%s", done.Messages, done.Kept, done.Summary), nil
}

// showCompaction shows a summary to a client that has a place for it.
func (s *session) showCompaction(ctx context.Context, turn, summary string) {
	update := marshal(map[string]any{
		"sessionUpdate": "compaction_update", "compactionId": "gander-" + turn, "status": "completed",
		"summary": []any{acp.TextBlock(summary)},
	})
	s.record(turn, sessions.Update{Sent: []json.RawMessage{update}})
	s.send(ctx, update)
}

// shorten changes what agents are told of the conversation, and has them begin
// conversations of their own again.
func (s *session) shorten(ctx context.Context, how func(*sessions.Store) (sessions.Compacted, error)) (sessions.Compacted, error) {
	if err := s.transcript.Sync(ctx); err != nil {
		return sessions.Compacted{}, err
	}
	done, err := how(s.r.opts.Store)
	if err == nil && done.Applied {
		s.restart(true)
	}
	return done, err
}

// restart ends the agent; the one that takes its place with the next prompt knows
// nothing of its own when it is to forget.
func (s *session) restart(forget bool) {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	s.mu.Lock()
	if forget {
		clear(s.seen)
	}
	now, known := s.setting(), s.known
	s.mu.Unlock()
	s.swap(now, known)
}

// commandExport writes the thread to a file.
func commandExport(ctx context.Context, call commandCall) (string, error) {
	if err := call.s.transcript.Sync(ctx); err != nil {
		return "", err
	}
	return call.s.r.export(ctx, call.s.id, call.args)
}

// export writes a thread to a file of gander's own: what the host writes
// into a project might go through a link that the agent has made.
func (r *Router) export(ctx context.Context, id acp.SessionID, format string) (string, error) {
	write, ending := r.opts.Store.ExportMarkdown, "md"
	switch format {
	case "", "markdown":
	case "json":
		write, ending = r.opts.Store.ExportJSON, "json"
	default:
		return "", fmt.Errorf("choose markdown or json, not %q", format)
	}
	file := filepath.Join(r.opts.StateDir, "artifacts", string(id), "thread."+ending)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".thread-*") // a thread may not fit into memory
	if err != nil {
		return "", err
	}
	err = errors.Join(write(ctx, id, f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("writing %s: %w", file, err), os.Remove(f.Name()))
	}
	return fmt.Sprintf("The thread is in `%s`.", file), nil
}

// commandPolicy says what the agent does not see and cannot do.
func commandPolicy(_ context.Context, call commandCall) (string, error) {
	s := call.s
	s.mu.Lock()
	b := s.backend
	s.mu.Unlock()
	if !b.running() || !b.place.Examined.Surveyed() {
		return "The sandbox is not running yet, or keeps no rules. `gander policy show` in the project says what would hold.", nil
	}
	var out strings.Builder
	for _, said := range b.policyNotices(true) {
		fmt.Fprintf(&out, "- %s\n", said.text)
	}
	return out.String(), nil
}
