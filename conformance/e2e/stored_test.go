package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// existing is a session that another process has made.
func (e *editor) existing(id string) *session {
	return &session{editor: e, id: id}
}

// load loads a session and returns what was replayed: "kind text" each.
func (e *editor) load(id, cwd string) (*session, []string) {
	e.t.Helper()
	s := e.existing(id)
	if err := e.request("session/load", map[string]any{"sessionId": id, "cwd": cwd, "mcpServers": []any{}}, &s.opened); err != nil {
		e.t.Fatalf("session/load: %v", err)
	}
	return s, e.replayed(id)
}

// replayed is what came for a session between the request to load it and the answer.
func (e *editor) replayed(id string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	loading := ""
	for _, f := range e.rec.frames {
		switch {
		case f.out && f.Method == "session/load" && f.sessionID() == id:
			loading, out = string(f.ID), nil
		case !f.out && f.isResponse() && string(f.ID) == loading:
			loading = ""
		case loading != "" && !f.out:
			if u, ok := f.update(); ok && f.sessionID() == id {
				out = append(out, strings.TrimSpace(u.SessionUpdate+" "+u.Title+u.text()))
			}
		}
	}
	return out
}

// asked returns the bodies of the model's requests from the n-th on.
func (w *world) asked(n int) string {
	w.t.Helper()
	var all strings.Builder
	for _, r := range w.model.Requests()[n:] {
		all.Write(r.Body)
	}
	return all.String()
}

// told fails the test unless the model was told every word since the n-th request.
func (w *world) told(n int, words ...string) {
	w.t.Helper()
	all := w.asked(n)
	for _, word := range words {
		if !strings.Contains(all, word) {
			w.t.Errorf("the model was not told %q: %s", word, shorten(all))
		}
	}
}

// notTold fails when a model was told one of some words after its first n calls.
func (w *world) notTold(n int, words ...string) {
	w.t.Helper()
	all := w.asked(n)
	for _, word := range words {
		if strings.Contains(all, word) {
			w.t.Errorf("the model was told %q: %s", word, shorten(all))
		}
	}
}

// remember opens a session in which something is said, done and read.
func (w *world) remember(e *editor, cwd string) *session {
	w.t.Helper()
	w.write(cwd, "note.txt", "the file says medlar\n")
	s := e.session(cwd)
	s.prompt("the word is quince, " + script(w.t, w.shell("cat note.txt"), says("I have read it"))).done("end_turn")
	return s
}

// A thread is there after gander has ended, however it ended, and the agent knows
// what was said: from its own session, or from gander's when that is gone.
func TestLoadAfterTheEnd(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		cwd := w.mkdir("project")
		for _, how := range []struct {
			name string
			end  func(w *world, e *editor)
			lost bool // the agent's own session
		}{
			{"orderly", func(_ *world, e *editor) { e.end() }, false},
			{"gander killed", func(_ *world, e *editor) { e.do("kill", map[string]any{"signal": "SIGKILL"}); e.exit() }, false},
			{"sandbox lost with it", func(w *world, e *editor) {
				all := w.below(e)
				e.do("kill", map[string]any{"signal": "SIGKILL"})
				e.exit()
				gone(w.t, patience, stillAlive(all))
				if err := os.RemoveAll(filepath.Join(w.ganderHome(), "sandboxes")); err != nil {
					w.t.Fatal(err)
				}
			}, true},
			{"record damaged", func(w *world, e *editor) {
				e.end()
				if damage(w.t, filepath.Join(w.ganderHome(), "sandboxes")) == 0 {
					w.t.Fatal("the agent has kept nothing of its session")
				}
			}, true},
		} {
			if !everywhere && w.cell != home && how.name != "orderly" {
				continue // the other ends are gander's alone
			}
			t.Run(how.name, func(t *testing.T) {
				w := w.in(t)
				e := w.gander(nil)
				e.initialize()
				s := w.remember(e, cwd)
				e.dies = true
				how.end(w, e)

				e = w.gander(nil)
				e.initialize()
				again, thread := e.load(s.id, cwd)
				for _, want := range []string{"the word is quince", "the file says medlar", "I have read it"} {
					if !strings.Contains(strings.Join(thread, "\n"), want) {
						t.Errorf("the thread does not show %q: %q", want, thread)
					}
				}
				before := len(w.model.Requests())
				turn := again.prompt("which word? " + script(t, says("it was quince"))).done("end_turn")
				w.told(before, "the word is quince", "the file says medlar", "I have read it")
				if said := strings.Contains(strings.Join(turn.kinds(), " "), "agent_thought_chunk") && strings.Contains(w.asked(before), "began with another agent"); said != how.lost {
					t.Errorf("the agent was told by gander: %v, want %v; the turn is %q", said, how.lost, turn.kinds())
				}
				if err := e.request("session/delete", map[string]any{"sessionId": s.id}, nil); err != nil {
					t.Error(err)
				}
				left, err := os.ReadDir(filepath.Join(w.ganderHome(), "sandboxes"))
				for _, d := range left {
					if strings.Contains(d.Name(), s.id) {
						t.Errorf("after the session was deleted there is %s (%v)", d.Name(), err)
					}
				}
			})
		}
	})
}

// damage writes over every file in a directory, as a disk does, and says how many there were.
func damage(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/home/") {
			return err
		}
		files++
		return os.WriteFile(path, bytes.Repeat([]byte("damaged "), 1000), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Goose takes over from opencode inside a thread, and the other way around.
func TestHotSwap(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		cwd := w.mkdir("project")
		other := agents[0]
		if w.cell.agent == agents[0] {
			other = agents[1]
		}
		e := w.gander(other.env(t))
		e.initialize()
		s := w.remember(e, cwd)
		set := func(agent string) {
			if err := e.request("session/set_config_option", map[string]any{"sessionId": s.id, "configId": "agent", "value": agent}, nil); err != nil {
				t.Fatal(err)
			}
		}
		set(other.name)
		before := len(w.model.Requests())
		turn := s.prompt("which word? " + script(t, other.runs("echo seen by the other"), says("it was quince"))).done("end_turn")
		w.told(before, "the word is quince", "the file says medlar", "I have read it")
		if call, ok := turn.tool(0); !ok || !call.final() {
			t.Errorf("the other agent ran nothing: %q", turn.kinds())
		}
		set(w.cell.agent.name)
		before = len(w.model.Requests())
		s.prompt("and now? " + script(t, says("back again"))).done("end_turn")
		w.told(before, "the word is quince", "which word?", "seen by the other", "it was quince")
		e.end()

		e = w.gander(other.env(t))
		e.initialize()
		_, thread := e.load(s.id, cwd)
		for _, want := range []string{"answered by " + other.name, "answered by " + w.cell.agent.name, "back again"} {
			if !strings.Contains(strings.Join(thread, "\n"), want) {
				t.Errorf("the thread does not show %q: %q", want, thread)
			}
		}
	})
}

// The official SDK lists, loads, resumes, forks, renames and deletes across processes.
func TestStoredSessions(t *testing.T) {
	inCells(t, testStoredSessions)
}

type listedSession struct {
	SessionID, CWD, Title, UpdatedAt string
	AdditionalDirectories            []string
}

func (e *editor) list(params map[string]any) []listedSession {
	e.t.Helper()
	var got struct {
		Sessions   []listedSession
		NextCursor string
	}
	if err := e.request("session/list", params, &got); err != nil {
		e.t.Fatalf("session/list: %v", err)
	}
	return got.Sessions
}

func testStoredSessions(t *testing.T, w *world) {
	cwd := w.mkdir("project")
	e := w.gander(nil)
	if caps := encode(t, e.initialize().AgentCapabilities["sessionCapabilities"]); strings.Count(caps, "{}") != 11 {
		t.Errorf("advertised are %s", caps)
	}
	s := w.remember(e, cwd)
	e.end()
	if files, err := os.ReadDir(cwd); err != nil || len(files) != 1 {
		t.Errorf("in the project there is %v, %v; want note.txt and nothing of gander's, nor of git's", files, err)
	}

	e = w.gander(nil)
	e.initialize()
	got := e.list(map[string]any{"cwd": cwd})
	if len(got) != 1 || got[0].SessionID != s.id || got[0].CWD != cwd || !strings.HasPrefix(got[0].Title, "the word is quince") {
		t.Fatalf("the list is %+v", got)
	}
	if none := e.list(map[string]any{"cwd": w.mkdir("elsewhere")}); len(none) != 0 {
		t.Errorf("elsewhere there are %+v", none)
	}
	var fork, resumed newSession
	if err := e.request("session/fork", map[string]any{"sessionId": s.id, "cwd": cwd, "mcpServers": []any{}}, &fork); err != nil || fork.SessionID == s.id {
		t.Fatalf("fork: %+v, %v", fork, err)
	}
	before := len(w.model.Requests())
	e.existing(fork.SessionID).prompt("which word? " + script(t, says("quince"))).done("end_turn")
	w.told(before, "the word is quince", "the file says medlar")
	if err := e.request("session/resume", map[string]any{"sessionId": s.id, "cwd": cwd}, &resumed); err != nil || len(resumed.ConfigOptions) < 3 {
		t.Fatalf("resume: %+v, %v", resumed, err)
	}
	before = len(w.model.Requests())
	e.existing(s.id).prompt("go on " + script(t, says("going on"))).done("end_turn")
	w.told(before, "the word is quince")
	var title struct{ Title string }
	if err := e.request("session/set_title", map[string]any{"sessionId": s.id, "title": "About fruit"}, &title); err != nil || title.Title != "About fruit" {
		t.Errorf("set_title: %+v, %v", title, err)
	}
	e.end()

	e = w.gander(nil)
	e.initialize()
	if got = e.list(map[string]any{}); len(got) != 2 || got[0].SessionID != s.id || got[0].Title != "About fruit" {
		t.Errorf("the list is %+v", got)
	}
	for _, id := range []string{s.id, s.id, fork.SessionID} {
		if err := e.request("session/delete", map[string]any{"sessionId": id}, nil); err != nil {
			t.Error(err)
		}
	}
	if got = e.list(map[string]any{}); len(got) != 0 {
		t.Errorf("after all were deleted there are %+v", got)
	}
	err := e.request("session/load", map[string]any{"sessionId": s.id, "cwd": cwd, "mcpServers": []any{}}, nil)
	if code(err) != -32002 {
		t.Errorf("loading what was deleted: %v", err)
	}
}
