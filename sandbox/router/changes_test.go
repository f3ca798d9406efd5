package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sessions"
)

// yard is a session of a rig that compares files, whose turns do what a test says.
type yard struct {
	*rig
	dir string
	id  acp.SessionID
	do  func(c *fakeConv)
}

func newProject(t *testing.T, adjust ...func(*rig)) *yard {
	t.Helper()
	p := &yard{dir: t.TempDir()}
	p.rig = newRig(t, func(r *rig) {
		r.opts.Changes = &changes.Options{Dir: filepath.Join(r.dir, "snapshots")}
		r.opts.Snapshots = r.opts.Changes.Dir
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			p.do(c)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		for _, a := range adjust {
			a(r)
		}
	})
	for name, text := range map[string]string{"a.txt": "one\ntwo\n", "b.txt": "b\n", "image": "\x00\x01"} {
		p.write(t, name, text)
	}
	p.id = p.editor.NewSession(t, p.dir).SessionID
	return p
}

func (p *yard) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

func (p *yard) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// turnUpdates are the updates that a prompt brings.
func (p *yard) turnUpdates(t *testing.T, text string) []json.RawMessage {
	t.Helper()
	before := len(p.updates(p.id))
	p.wantStop(t, p.id, text, acp.StopEndTurn)
	return p.updates(p.id)[before:]
}

// changed is what an editor reads of the tool call with the differences.
type changed struct {
	SessionUpdate, ToolCallID, Title, Kind, Status string
	Content                                        []struct {
		Type, Path, NewText string
		OldText             *string
		Content             struct{ Text string }
	}
	Locations []struct{ Path string }
}

func theChanges(t *testing.T, updates []json.RawMessage) *changed {
	t.Helper()
	var found *changed
	for _, u := range updates {
		var c changed
		if json.Unmarshal(u, &c) == nil && strings.HasPrefix(c.ToolCallID, "gander-changes-") {
			if found != nil {
				t.Error("there are two")
			}
			found = &c
		}
	}
	return found
}

func TestChangesByCommandsAreShownAtTheEnd(t *testing.T) {
	p := newProject(t)
	p.do = func(c *fakeConv) {
		p.write(t, "a.txt", "one\n2\n")
		p.write(t, "new.txt", "new\n")
		p.write(t, "image", "\x00\x02")
		// This one the agent shows itself.
		p.write(t, "b.txt", "B\n")
		c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"` + filepath.Join(p.dir, "b.txt") + `","oldText":"b\n","newText":"B\n"}]}`)
	}
	updates := p.turnUpdates(t, "go")
	got := theChanges(t, updates)
	if got == nil {
		t.Fatalf("no tool call with the changes in %s", updates)
	}
	if got.SessionUpdate != "tool_call" || got.Kind != "edit" || got.Status != "completed" || got.Title != "3 more files changed in this turn" {
		t.Errorf("got %+v", got)
	}
	if len(got.Content) != 3 {
		t.Fatalf("content %+v", got.Content)
	}
	a, created, rest := got.Content[0], got.Content[1], got.Content[2]
	if a.Path != filepath.Join(p.dir, "a.txt") || a.OldText == nil || *a.OldText != "one\ntwo\n" || a.NewText != "one\n2\n" {
		t.Errorf("a.txt: %+v", a)
	}
	if created.Path != filepath.Join(p.dir, "new.txt") || created.OldText != nil || created.NewText != "new\n" {
		t.Errorf("new.txt: %+v", created)
	}
	if rest.Content.Text != "modified a.txt\nmodified image\ncreated new.txt" {
		t.Errorf("the rest: %+v", rest)
	}
	if len(got.Locations) != 2 || got.Locations[0].Path != a.Path {
		t.Errorf("locations %+v", got.Locations)
	}

	var recorded *sessions.Changes
	for rec, err := range p.store.Entries(t.Context(), p.id) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := rec.Body.(sessions.Changes); ok {
			recorded = &c
		}
	}
	var paths []string
	if recorded != nil {
		for _, c := range recorded.Paths {
			paths = append(paths, c.Change+" "+c.Path)
		}
	}
	if !slices.Equal(paths, []string{"modified a.txt", "modified b.txt", "modified image", "created new.txt"}) {
		t.Errorf("recorded %+v", recorded)
	}
}

// What was shown and then changed again is shown.
func TestAShownFileThatChangedAgain(t *testing.T) {
	p := newProject(t)
	p.do = func(c *fakeConv) {
		c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"a.txt","oldText":"two","newText":"2"}]}`)
		p.write(t, "a.txt", "one\nthree\n")
	}
	if got := theChanges(t, p.turnUpdates(t, "go")); got == nil || got.Content[0].NewText != "one\nthree\n" {
		t.Errorf("got %+v", got)
	}
	p.do = func(c *fakeConv) {
		c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"a.txt","oldText":"three","newText":"3"}]}`)
		p.write(t, "a.txt", "one\n3\n")
	}
	if got := theChanges(t, p.turnUpdates(t, "go")); got != nil {
		t.Errorf("what was shown in part is shown again: %+v", got)
	}
	p.do = func(c *fakeConv) {
		c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"edit","kind":"edit","status":"completed","content":[{"type":"diff","path":"a.txt","oldText":"one","newText":"one"}]}`)
		p.write(t, "a.txt", "one\nEVIL\n")
	}
	if got := theChanges(t, p.turnUpdates(t, "go")); got == nil || got.Content[0].NewText != "one\nEVIL\n" {
		t.Errorf("after an edit of nothing got %+v", got)
	}
	p.do = func(*fakeConv) {}
	if got := theChanges(t, p.turnUpdates(t, "go")); got != nil {
		t.Errorf("nothing changed, and shown is %+v", got)
	}
}

// A tool call shows of a file what its difference says, and nothing that came later.
func TestWhatIsShown(t *testing.T) {
	diff := func(old, text string) string {
		return string(marshal(map[string]any{"type": "diff", "path": "/p/a", "oldText": old, "newText": text}))
	}
	whole := func(text string) string {
		return string(marshal(map[string]any{"type": "diff", "path": "/p/a", "newText": text}))
	}
	const before = "one\ntwo\none\n"
	for _, tt := range []struct {
		name          string
		before, after string
		calls         []string
		want          bool
	}{
		{"nothing", before, before + "x\n", nil, false},
		{"an edit", before, "one\n2\none\n", []string{diff("two", "2")}, true},
		{"an edit, then a command", before, "one\n2\none\nEVIL\n", []string{diff("two", "2")}, false},
		{"an edit of nothing, then a command", before, before + "EVIL\n", []string{diff("one", "one")}, false},
		{"the end of a line, then a command", before, before + "EVIL\n", []string{diff("\n", "\n")}, false},
		{"an edit of nothing that says what the command writes", before, before + "EVIL\n", []string{diff(before+"EVIL\n", before+"EVIL\n")}, false},
		{"two edits", before, "one\n3\none\n", []string{diff("two", "2"), diff("2", "3")}, true},
		{"an edit that failed, and one that did not", before, "one\n2\none\n", []string{diff("tow", "2"), diff("two", "2")}, true},
		{"the first of several places", before, "1\ntwo\none\n", []string{diff("one", "1")}, true},
		{"several places", before, "1\ntwo\n1\n", []string{diff("one", "1")}, false},
		{"a whole file", before, "new\n", []string{whole("new\n")}, true},
		{"a whole file, then a command", before, "new\nEVIL\n", []string{whole("new\n")}, false},
		{"a whole file and what it was", before, "new\n", []string{diff(before, "new\n")}, true},
		{"without the end of the last line", before, "new\n", []string{diff("one\ntwo\none", "new")}, true},
		{"with one that was not there", "one", "new", []string{diff("one\n", "new\n")}, true},
		{"a new file, then an edit", "", "one\n2\n", []string{whole("one\ntwo\n"), diff("two", "2")}, true},
		{"a file that is empty now", before, "", []string{diff(before, "")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var shown shownDiffs
			for i, call := range tt.calls {
				for range 2 { // agents repeat the content of a call
					shown.add(fmt.Sprint(i), json.RawMessage("["+call+"]"))
				}
			}
			if got := shown.has("/p", changes.Change{Path: "a", Kind: changes.Modified}, tt.before, tt.after); got != tt.want {
				t.Errorf("shown: %t", got)
			}
			if shown.has("/p", changes.Change{Path: "a", Kind: changes.Renamed}, tt.before, tt.after) {
				t.Error("a rename counts as shown")
			}
		})
	}
}

func TestDiffAndUndo(t *testing.T) {
	p := newProject(t)
	said := func(command string) string {
		t.Helper()
		var out strings.Builder
		for _, u := range p.turnUpdates(t, command) {
			var m struct{ Content struct{ Text string } }
			_ = json.Unmarshal(u, &m)
			out.WriteString(m.Content.Text)
		}
		return out.String()
	}
	want := func(command string, texts ...string) {
		t.Helper()
		got := said(command)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s says %q, which is without %q", command, got, text)
			}
		}
	}
	want("/diff", "No turn")
	want("/undo", "nothing to undo")
	p.do = func(*fakeConv) { p.write(t, "a.txt", "one\n2\n") }
	p.turnUpdates(t, "go")
	p.do = func(*fakeConv) { p.write(t, "new.txt", "new\n") }
	p.turnUpdates(t, "go")
	want("/diff", "--- /dev/null", "+++ b/new.txt", "+new")
	if got := said("/diff"); strings.Contains(got, "a.txt") {
		t.Errorf("/diff shows an earlier turn: %s", got)
	}
	want("/diff all", "-two", "+2", "+new")
	want("/diff some", "not known")

	p.write(t, "new.txt", "mine\n")
	want("/undo", "new.txt changed after the turn", "nothing was undone")
	if got := p.read(t, "new.txt"); got != "mine\n" {
		t.Errorf("it says %q", got)
	}
	p.write(t, "new.txt", "new\n")
	before := p.journal.count("hold")
	want("/undo", "removed new.txt, which the turn had created")
	if held, released := p.journal.count("hold")-before, p.journal.count("release"); held != 1 || released != held+before {
		t.Errorf("names in the sandbox were held %d times and released %d times", held, released)
	}
	want("/undo", "put a.txt back as it was")
	if _, err := os.Stat(filepath.Join(p.dir, "new.txt")); err == nil || p.read(t, "a.txt") != "one\ntwo\n" {
		t.Errorf("a.txt says %q, new.txt: %v", p.read(t, "a.txt"), err)
	}
	want("/undo", "nothing to undo")
	want("/diff", "all are undone")
}

// Nothing is put back while what runs in a sandbox can move it: the person learns what
// to do. A sandbox that does not isolate, and one that has ended, are no hindrance.
func TestUndoWithoutAHold(t *testing.T) {
	p := newProject(t)
	undo := func() (said string) {
		for _, u := range p.turnUpdates(t, "/undo") {
			said += string(u)
		}
		return said
	}
	p.do = func(*fakeConv) { p.write(t, "a.txt", "one\n2\n") }
	p.turnUpdates(t, "go")
	p.driver.isolated, p.driver.holdErr = true, errors.New("no answer")
	if said := undo(); !strings.Contains(said, "nothing was undone") || !strings.Contains(said, "gander session undo") || p.read(t, "a.txt") != "one\n2\n" {
		t.Errorf("it says %q, and a.txt is %q", said, p.read(t, "a.txt"))
	}
	_ = p.driver.last().Close()
	if said := undo(); !strings.Contains(said, "put a.txt back as it was") || p.read(t, "a.txt") != "one\ntwo\n" {
		t.Errorf("it says %q, and a.txt is %q", said, p.read(t, "a.txt"))
	}
	p.turnUpdates(t, "go")
	p.driver.isolated, p.driver.holdErr = false, errors.New("no rules")
	if said := undo(); !strings.Contains(said, "put a.txt back as it was") {
		t.Errorf("it says %q", said)
	}
}

// A turn that was cancelled, or failed, is compared, too, and can be undone.
func TestACancelledTurnCanBeUndone(t *testing.T) {
	p := newProject(t)
	p.agent.onTurn = func(ctx context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
		p.write(t, "a.txt", "cut short\n")
		p.journal.add("written")
		return untilCancelled(ctx, c, text)
	}
	done := p.prompt(t, p.id, "go")
	p.journal.wait(t, "written", 1)
	p.cancel(t, p.id)
	if got := <-done; got.stop != acp.StopCancelled {
		t.Fatalf("it ended with %+v", got)
	}
	if got := theChanges(t, p.updates(p.id)); got == nil || got.Content[0].NewText != "cut short\n" {
		t.Errorf("shown: %+v", got)
	}
	p.wantStop(t, p.id, "/undo", acp.StopEndTurn)
	if got := p.read(t, "a.txt"); got != "one\ntwo\n" {
		t.Errorf("it says %q", got)
	}
}

// A turn that is shown and could not be kept is not said to be, and an undo does not take
// an earlier one for it.
func TestATurnThatIsNotKept(t *testing.T) {
	p := newProject(t)
	p.do = func(*fakeConv) { p.write(t, "a.txt", "good work\n") }
	p.turnUpdates(t, "go")
	turns, err := filepath.Glob(filepath.Join(p.opts.Changes.Dir, "*", "turns"))
	if err != nil || len(turns) != 1 {
		t.Fatal(turns, err)
	}
	if err := errors.Join(os.Rename(turns[0], turns[0]+"-away"), os.WriteFile(turns[0], nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.do = func(*fakeConv) { p.write(t, "junk", "x") }
	p.turnUpdates(t, "go")
	kept := p.kept(t, p.id)
	if strings.Count(kept, `"snapshot"`) != 1 || !strings.Contains(kept, "is not kept yet") {
		t.Errorf("recorded is %s", kept)
	}
	p.turnUpdates(t, "/undo")
	if said := p.said(p.id); !strings.Contains(said, "nothing was undone") || p.read(t, "a.txt") != "good work\n" {
		t.Errorf("a.txt says %q; said is %s", p.read(t, "a.txt"), said)
	}
	if err := errors.Join(os.Remove(turns[0]), os.Rename(turns[0]+"-away", turns[0])); err != nil {
		t.Fatal(err)
	}
	p.turnUpdates(t, "/diff")
	if said := p.said(p.id); !strings.Contains(said, "+++ b/junk") || !strings.Contains(said, "It is not kept yet") {
		t.Errorf("said is %s", said)
	}
	p.turnUpdates(t, "/undo")
	if _, err := os.Stat(filepath.Join(p.dir, "junk")); err == nil || p.read(t, "a.txt") != "good work\n" {
		t.Errorf("a.txt says %q, junk: %v", p.read(t, "a.txt"), err)
	}
}

// Who cancels an undo too late is told what it did.
func TestAnUndoThatIsCancelledTooLate(t *testing.T) {
	p := newProject(t)
	p.do = func(*fakeConv) { p.write(t, "a.txt", "changed\n") }
	p.turnUpdates(t, "go")
	s, err := p.router.session(p.id)
	if err != nil {
		t.Fatal(err)
	}
	p.driver.released = func() {
		p.cancel(t, p.id)
		s.mu.Lock()
		undo := s.queue[0]
		s.mu.Unlock()
		<-undo.ctx.Done()
	}
	p.wantStop(t, p.id, "/undo", acp.StopCancelled)
	if said := p.said(p.id); !strings.Contains(said, "put a.txt back as it was") || p.read(t, "a.txt") != "one\ntwo\n" {
		t.Errorf("a.txt says %q; said is %s", p.read(t, "a.txt"), said)
	}
}

// The look after a turn lasts on for a while when that is cancelled, and no longer.
func TestSoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, cancel := context.WithCancel(t.Context())
		ctx, done := soonAfter(t.Context(), turn, time.Second)
		defer done()
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it has ended before the turn")
		}
		cancel()
		time.Sleep(time.Second / 2)
		if ctx.Err() != nil {
			t.Error("it has ended with the turn")
		}
		time.Sleep(time.Second)
		if ctx.Err() == nil {
			t.Error("it goes on")
		}
	})
}

// What there was no time to read is named.
func TestShowWithoutTime(t *testing.T) {
	p := newProject(t)
	p.do = func(*fakeConv) {}
	p.turnUpdates(t, "go") // the first look is over
	s, err := p.router.session(p.id)
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.files.tree.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "a.txt", "one\n2\n")
	found, err := s.files.tree.End(t.Context(), before, string(p.id), newID())
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	got := theChanges(t, []json.RawMessage{s.files.show(ended, found, nil)})
	if got == nil || len(got.Content) != 1 || got.Content[0].Content.Text != "modified a.txt" {
		t.Errorf("got %+v", got)
	}
}

func TestPathsOfTheTranscript(t *testing.T) {
	for in, want := range map[changes.Path]string{"a%b": "a%b", "grün": "grün", "bad\xff%": "bad%FF%25"} {
		if got, escaped := escapePath(in); got != want || escaped != strings.Contains(string(in), "\xff") {
			t.Errorf("%q is %q, %v", in, got, escaped)
		}
	}
}

// What files were before the turns of a session goes with the session.
// Also when files are not compared any more.
func TestDeleteForgetsTheFiles(t *testing.T) {
	p := newProject(t)
	p.do = func(*fakeConv) { p.write(t, "a.txt", "changed\n") }
	p.turnUpdates(t, "go")
	kept := func() []string {
		turns, err := filepath.Glob(filepath.Join(p.opts.Changes.Dir, "*", "turns", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return turns
	}
	if got := kept(); len(got) != 1 {
		t.Fatalf("before: %q", got)
	}
	p.router.Close()
	next := p.again(t, acp.ClientCapabilities{}, func(r *rig) { r.opts.Snapshots = p.opts.Snapshots }) // switched off
	if _, err := next.editor.Conn.DeleteSession(t.Context(), &acp.DeleteSessionRequest{SessionID: p.id}); err != nil {
		t.Fatal(err)
	}
	if got := kept(); len(got) != 0 {
		t.Errorf("after: %q", got)
	}
	objects, err := filepath.Glob(filepath.Join(p.opts.Changes.Dir, "*", "objects"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	if data, err := os.ReadFile(objects[0]); err != nil || strings.Contains(string(data), "one\ntwo\n") {
		t.Errorf("what a.txt was is still there (%v)", err)
	}
}
