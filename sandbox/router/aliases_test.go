package router

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sessions"
)

// promptWith sends a prompt with a _meta.
func (r *rig) promptWith(t *testing.T, id acp.SessionID, text, meta string) error {
	t.Helper()
	_, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}, Meta: json.RawMessage(meta)})
	return err
}

// A prompt that is to begin anew is answered by an agent that knows nothing; the thread
// has everything.
func TestPromptThatBeginsAnew(t *testing.T) {
	r := newRig(t, func(r *rig) { r.agent.resumes = true })
	s := r.open(t)
	if err := r.promptWith(t, s.SessionID, "the first", `{"newSession":true}`); err != nil {
		t.Fatal(err)
	}
	if n := r.agent.opened; n != 1 {
		t.Errorf("the agent was started %d times for a thread with nothing to forget", n)
	}
	r.wantStop(t, s.SessionID, "medlar", acp.StopEndTurn)
	if err := r.promptWith(t, s.SessionID, "what did I say?", `{"forceNewSession":true}`); err != nil {
		t.Fatal(err)
	}
	if told := r.agent.conv().prompts(); len(told) != 1 || strings.Contains(told[0], "medlar") || r.journal.count("open duck mode= model= resume=") != 2 {
		t.Errorf("the agent was told %q; %q", told, r.journal.all())
	}
	r.wantStop(t, s.SessionID, "and now?", acp.StopEndTurn)
	if told := r.agent.conv().prompts(); len(told) != 2 {
		t.Errorf("the next prompt does not go on with it: %q", told)
	}
	h, err := r.store.History(t.Context(), s.SessionID, 1<<20)
	if err != nil || strings.Contains(h.String(), "medlar") || !strings.Contains(h.String(), "what did I say?") {
		t.Errorf("the conversation is %s, %v", h, err)
	}
}

// A session that is not to be kept leaves nothing, and a prompt cannot make one of it.
func TestSessionThatIsNotKept(t *testing.T) {
	var runs string
	r := newRig(t, func(r *rig) {
		runs = filepath.Join(r.dir, "runs")
		traces, err := sessions.OpenRuns(runs, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.opts.Runs = traces
		r.opts.Changes = &changes.Options{Dir: filepath.Join(r.dir, "snapshots")}
		r.opts.Snapshots = r.opts.Changes.Dir
		r.opts.Agents[0] = rememberer{r.agent}
	})
	open := func(meta string) acp.SessionID {
		t.Helper()
		s, err := r.editor.Conn.NewSession(t.Context(), &acp.NewSessionRequest{CWD: t.TempDir(), Meta: json.RawMessage(meta)})
		if err != nil {
			t.Fatal(err)
		}
		return s.SessionID
	}
	kept, unkept := open(`{}`), open(`{"noSession":true}`)
	if err := r.promptWith(t, kept, "x", `{"disableSession":true}`); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("a prompt that is not to be kept, of a session that is: %v", err)
	}
	if err := r.promptWith(t, unkept, "the-words-7", `{"disableSession":true}`); err != nil {
		t.Fatal(err)
	}
	if list, err := r.editor.Conn.ListSessions(t.Context(), &acp.ListSessionsRequest{}); err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionID != kept {
		t.Errorf("the list is %+v, %v", list, err)
	}
	fork, err := r.editor.Conn.ForkSession(t.Context(), &acp.ForkSessionRequest{SessionID: unkept, CWD: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.router.kept().Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := t.TempDir() // as a process that was killed leaves it
	if err := os.CopyFS(left, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	owners, err := filepath.Glob(filepath.Join(left, "state", "sandboxes", "*", "owner.json"))
	for _, owner := range owners {
		err = errors.Join(err, os.Remove(owner))
	}
	if err != nil || len(owners) == 0 {
		t.Fatal(owners, err)
	}
	store, err := sessions.Open(filepath.Join(left, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Info(t.Context(), unkept); err != nil {
		t.Errorf("a session that is open was cleared away: %v", err)
	}
	if err := (Kept{Store: store, StateDir: filepath.Join(left, "state"), Snapshots: filepath.Join(left, "snapshots")}).Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Info(t.Context(), kept); err != nil {
		t.Errorf("the session that is kept: %v", err)
	}
	r.closeSession(t, unkept)
	r.closeSession(t, fork.SessionID)
	for _, dir := range []string{r.dir, left} {
		wantForgotten(t, dir, unkept, "the-words-7")
		wantForgotten(t, dir, fork.SessionID, "the-words-7")
	}
}

// wantForgotten fails the test for a file below dir that is of a session, or has the words.
func wantForgotten(t *testing.T, dir string, id acp.SessionID, words string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, string(id)) && !strings.Contains(path, ".trash") {
			t.Errorf("left: %s", path)
		}
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), words) {
			t.Errorf("%s has what was said", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The spending of a session goes with it.
func TestSpentGoesWithTheSession(t *testing.T) {
	dir := t.TempDir()
	store, err := sessions.Open(filepath.Join(dir, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	spent := confine.SpentPath(dir, "a-session")
	if err := errors.Join(os.Mkdir(filepath.Dir(spent), 0o700), os.WriteFile(spent, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := (Kept{Store: store, StateDir: dir}).Erase(t.Context(), "a-session"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(spent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the session was deleted: %v", err)
	}
}
