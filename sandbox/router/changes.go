package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/router/changes"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sessions"
)

const (
	// prepareTime bounds the first look at a project, which reads all of it.
	prepareTime = 2 * time.Minute
	// patienceForFiles is how long a prompt waits for the first look to end; what
	// was not read until then is compared by size and times in that turn.
	patienceForFiles = 10 * time.Second
	// cancelledTime bounds the look after a turn once that is cancelled.
	cancelledTime = 2 * time.Second
	// undoTime bounds for how long nothing inside can rename or link while files are put
	// back; an undo follows no link by itself.
	undoTime = 30 * time.Second
)

// comparer compares the session's files before and after each turn. A nil comparer
// compares nothing.
type comparer struct {
	s    *session
	stop context.CancelFunc // of the first look

	prepared chan struct{} // closed when the first look has ended
	// Set before prepared is closed, then constant.
	tree *changes.Tree
	err  error
}

// compareFiles begins to look at the session's files.
func (s *session) compareFiles(o *changes.Options) {
	if o == nil {
		return
	}
	c := &comparer{s: s, prepared: make(chan struct{})}
	ctx, stop := context.WithTimeout(s.ctx, prepareTime)
	c.stop = stop
	s.files = c
	s.work.Go(func() { // nobody waits for work yet
		defer close(c.prepared)
		defer stop()
		c.prepare(ctx, *o)
	})
}

func (c *comparer) prepare(ctx context.Context, o changes.Options) {
	real, err := filepath.EvalSymlinks(c.s.cwd)
	if err != nil {
		c.err = err
		return
	}
	o.Root, o.Parent, o.Logger = real, string(c.s.r.opts.Parent), c.s.log
	if r := c.s.r.opts.Terms.Rules(); r != nil {
		if o.Rules, c.err = ignore.NewSet(ignore.SetOptions{Root: real, Shared: true, Global: r.Own, Logger: c.s.log}); c.err != nil {
			return
		}
	}
	if c.tree, c.err = changes.Open(o); c.err != nil {
		return
	}
	if err := c.tree.Prepare(ctx); err != nil && ctx.Err() == nil {
		c.s.log.Warn("reading the project's files", "err", err)
	}
	if err := changes.Sweep(o.Dir, 2*o.Keep); err != nil {
		c.s.log.Warn("removing what is kept of projects that nobody uses", "err", err)
	}
}

// close ends the comparing. No turn runs any more, and the first look has ended.
func (c *comparer) close() {
	if c == nil || c.tree == nil {
		return
	}
	if err := c.tree.Close(); err != nil {
		c.s.log.Warn("closing what is kept of the project's files", "err", err)
	}
}

// ready is the tree once the first look has ended, or has taken too long.
func (c *comparer) ready(ctx context.Context) (*changes.Tree, error) {
	if c == nil {
		return nil, errors.New("files are not compared in this session; switch it on in the configuration (changes.off)")
	}
	late := time.AfterFunc(patienceForFiles, c.stop)
	defer late.Stop()
	select {
	case <-c.prepared:
		return c.tree, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin looks at the files before a turn that a backend answers; nil when they cannot be
// compared, which the person is told once.
func (c *comparer) begin(t *turn, b *backend) *changes.Before {
	if c == nil {
		return nil
	}
	tree, err := c.ready(t.ctx)
	var before *changes.Before
	if err == nil {
		before, err = tree.Begin(t.ctx)
	}
	if err != nil && t.ctx.Err() == nil {
		c.failed(err)
	}
	if before != nil {
		before.Whose = b.whose
	}
	return before
}

func (c *comparer) failed(err error) {
	c.s.log.Warn("comparing the project's files", "err", err)
	c.s.notice("warning", "What changes in the project cannot be compared, shown or undone: "+err.Error())
}

// end looks at the files after a turn, records what is different and shows what no
// tool call showed, and returns what it recorded. That the files could not be compared before the turn is kept, too: an
// undo must not take an earlier turn for it.
func (c *comparer) end(t *turn, before *changes.Before, shown shownDiffs) *sessions.Changes {
	if c == nil || c.tree == nil {
		return nil
	}
	ctx, done := soonAfter(c.s.ctx, t.ctx, cancelledTime)
	defer done()
	found, err := c.tree.End(ctx, before, string(c.s.id), t.id)
	switch {
	case err != nil && found != nil:
		c.s.tell("warning", fmt.Sprintf("What this turn changed in the project is not kept yet: %v. /undo tries that again first, and undoes nothing when it fails.", err))
	case err != nil:
		c.failed(err)
	}
	if found == nil || before == nil || found.Empty() && len(found.NotCompared) == 0 {
		return nil // or it was said when the turn began
	}
	rec := recordOf(found)
	if err != nil {
		rec.Snapshot = ""
	}
	leaked := c.s.leaks.Check(leakChanged, marshal(rec)) != nil
	if !leaked {
		c.s.record(t.id, rec)
	}
	if update := c.show(ctx, found, shown); update != nil && c.s.leaks.Check(leakChanged, update) == nil {
		c.s.record(t.id, sessions.Update{Sent: []json.RawMessage{update}})
		c.s.send(ctx, update)
	}
	if leaked {
		return nil
	}
	return &rec
}

// soonAfter is a context that ends some time after another one has, or with its parent.
func soonAfter(parent, other context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	ctx, done := context.WithCancel(parent)
	stop := context.AfterFunc(other, func() { time.AfterFunc(by, done) })
	return ctx, func() { stop(); done() }
}

// maxRecorded is how many paths of a turn are in the transcript.
const maxRecorded = 1000

// recordOf is what a turn changed, as the transcript has it.
func recordOf(found *changes.Turn) sessions.Changes {
	rec := sessions.Changes{NotCompared: found.NotCompared, Note: strings.Join(notesBut(found), " ")}
	if len(found.Changes) > 0 {
		rec.Snapshot = found.ID
	}
	files := found.Files()
	for _, f := range files[:min(len(files), maxRecorded)] {
		path, escaped := escapePath(f.Path)
		from, alsoEscaped := escapePath(f.From)
		rec.Paths = append(rec.Paths, sessions.ChangedPath{Path: path, From: from, Escaped: escaped || alsoEscaped, Change: wordFor(f)})
	}
	rec.Omitted = len(files) - len(rec.Paths) + found.More
	return rec
}

// notesBut are the notes of a turn without those about what was not compared.
func notesBut(found *changes.Turn) []string {
	rest := *found
	rest.NotCompared = nil
	return rest.Notes()
}

func wordFor(c changes.Change) string {
	if b, a := c.Before, c.After; c.Kind == changes.Modified && b.Type == a.Type && b.Sum == a.Sum && b.Sum != "" {
		return "mode"
	}
	return c.Kind
}

// escapePath is a path as text: bytes that are no UTF-8, and then percent signs too, as %XX.
func escapePath(p changes.Path) (string, bool) {
	if utf8.ValidString(string(p)) {
		return string(p), false
	}
	var b strings.Builder
	for rest := string(p); rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && n == 1 || r == '%' {
			fmt.Fprintf(&b, "%%%02X", rest[0])
		} else {
			b.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	return b.String(), true
}

// The bounds of what is shown at the end of a turn.
const (
	maxShownFiles = 30
	maxShownText  = 512 << 10 // bytes of old and new text together
	maxNamedFiles = 1000
)

// show is a tool call with the differences that no tool call of the agent showed;
// nil when there are none. For what is left when ctx has ended there are names only.
func (c *comparer) show(ctx context.Context, found *changes.Turn, shown shownDiffs) json.RawMessage {
	var content []json.RawMessage
	locations := []map[string]string{} // the schema wants a list, also of none
	var named []string                 // every file, as what is shown as a difference has no name in some editors
	size, count := 0, 0
	for _, f := range found.Files() {
		path := filepath.Join(c.s.cwd, filepath.FromSlash(string(f.Path)))
		var before, after string
		var isText bool
		if ctx.Err() == nil {
			before, after, isText = c.tree.Texts(f)
		}
		if isText && shown.has(c.s.cwd, f, before, after) {
			continue
		}
		count++
		fits := isText && f.Kind != changes.Renamed && before != after && utf8.ValidString(path) &&
			len(content) < maxShownFiles && size+len(before)+len(after) <= maxShownText
		name := f.String()
		if isText && !fits && f.Kind != changes.Renamed && before != after {
			name += fmt.Sprintf(" (%d bytes before, %d after: too much to be shown here; /diff shows more)", len(before), len(after))
		}
		named = append(named, name)
		if !fits {
			continue
		}
		size += len(before) + len(after)
		content = append(content, diffContent(path, before, after, f.Before != nil))
		if f.After != nil {
			locations = append(locations, map[string]string{"path": path})
		}
	}
	if notes := found.Notes(); count == 0 && len(notes) == 0 {
		return nil
	} else if text := enumerate(named, notes); text != "" {
		content = append(content, acp.ToolContent(text))
	}
	return acp.WithFields(json.RawMessage(`{"sessionUpdate":"tool_call"}`), map[string]any{
		"toolCallId": "gander-changes-" + found.ID, "title": titleFor(count, found), "kind": "edit", "status": "completed",
		"content": content, "locations": locations,
	})
}

func titleFor(count int, found *changes.Turn) string {
	count += found.More
	switch {
	case count == 0:
		return "What else changed in this turn"
	case count == 1:
		return "1 more file changed in this turn"
	}
	return fmt.Sprintf("%d more files changed in this turn", count)
}

// enumerate names the files that changed, in bounds.
func enumerate(named, notes []string) string {
	if more := len(named) - maxNamedFiles; more > 0 {
		named = append(slices.Clone(named[:maxNamedFiles]), fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(append(named, notes...), "\n")
}

func diffContent(path, before, after string, existed bool) json.RawMessage {
	d := map[string]any{"type": "diff", "path": path, "oldText": before, "newText": after}
	if !existed {
		d["oldText"] = nil
	}
	return marshal(d)
}

// shownDiffs are the differences that tool calls of a turn showed, in their order.
type shownDiffs []shownDiff

type shownDiff struct {
	call, path string
	old, text  string // old is empty for a file that is written as a whole
}

// The bounds of what is remembered; of what is not, the difference is shown twice.
const (
	maxShownDiffs = 500
	maxShownBytes = 16 << 20
)

// add remembers the diffs in a tool call's content, which replaces what it had.
func (d *shownDiffs) add(call string, content json.RawMessage) {
	*d = slices.DeleteFunc(*d, func(s shownDiff) bool { return s.call == call })
	room := maxShownBytes
	for _, s := range *d {
		room -= len(s.old) + len(s.text)
	}
	for _, raw := range listOf(content) {
		old, text := shortText(acp.Member(raw, "oldText")), shortText(acp.Member(raw, "newText"))
		f := fileOf(raw)
		if f.Type != "diff" || old == nil || text == nil || len(f.Path) > maxInput || len(*d) == maxShownDiffs {
			continue
		}
		if room -= len(*old) + len(*text); room < 0 {
			return
		}
		*d = append(*d, shownDiff{call, f.Path, *old, *text})
	}
}

// has says that what a file is now was shown: that the differences, one after the other,
// make it of what it was. What they may have left out counts as not shown.
func (d shownDiffs) has(cwd string, c changes.Change, before, after string) bool {
	full := filepath.Join(cwd, filepath.FromSlash(string(c.Path)))
	shown := false
	for _, s := range d {
		if s.path != full && s.path != string(c.Path) {
			continue
		}
		shown = true
		if s.old == "" || sameText(s.old, before) {
			before = s.text
		} else {
			before = strings.Replace(before, s.old, s.text, 1)
		}
	}
	return shown && c.Kind != changes.Renamed && sameText(before, after)
}

// sameText compares but for the end of the last line, which tools add.
func sameText(a, b string) bool { return strings.TrimSuffix(a, "\n") == strings.TrimSuffix(b, "\n") }

// commandDiff is /diff: the last turn that changed files, or all of the session.
func commandDiff(ctx context.Context, call commandCall) (string, error) {
	tree, err := call.s.files.ready(ctx)
	if err != nil {
		return "", err
	}
	if call.args != "" && call.args != "all" {
		return "", fmt.Errorf("%q is not known; say /diff for the last turn that changed files, or /diff all", call.args)
	}
	turns, err := tree.Session(string(call.s.id))
	if err != nil {
		return "", err
	}
	turns = slices.DeleteFunc(turns, func(t *changes.Turn) bool { return t.Undone != nil })
	if len(turns) == 0 {
		return "No turn of this session has changed a file, or all are undone.", nil
	}
	if call.args == "" {
		turns = turns[:1]
	}
	slices.Reverse(turns)
	var b strings.Builder
	for _, t := range turns {
		b.WriteString(describeTurn(tree, t, maxShownText/len(turns)))
	}
	return b.String(), nil
}

func describeTurn(tree *changes.Tree, t *changes.Turn, limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The turn of %s:\n", t.Started.Format("15:04:05"))
	if text := tree.Diff(t, limit); text != "" {
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n%sdiff\n%s%s\n", fence, text, fence)
	}
	for _, n := range t.Notes() {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}

// commandUndo is /undo: the last turn that changed files and is not undone.
func commandUndo(ctx context.Context, call commandCall) (string, error) {
	done, err := call.putBack(ctx, "undone", (*changes.Tree).Undo)
	switch {
	case errors.Is(err, changes.ErrNothing):
		return "There is nothing to undo: no turn of this session has changed a file, or all are undone.", nil
	case err != nil:
		return "", err
	}
	call.s.record(call.turn.id, sessions.Changes{Note: "undid the turn " + done.Turn.ID})
	return describeUndone("Undone", done, (*changes.Change).Undone), nil
}

// commandRedo does the turn again that was undone last.
func commandRedo(ctx context.Context, call commandCall) (string, error) {
	done, err := call.putBack(ctx, "done again", (*changes.Tree).Redo)
	switch {
	case errors.Is(err, changes.ErrNothingUndone):
		return "There is nothing to do again: no turn of this session is undone.", nil
	case err != nil:
		return "", err
	}
	call.s.record(call.turn.id, sessions.Changes{Note: "did the turn " + done.Turn.ID + " again"})
	return describeUndone("Done again", done, (*changes.Change).Redone), nil
}

// putBack has files changed while nothing inside can rename or link.
func (call commandCall) putBack(ctx context.Context, what string, do func(*changes.Tree, context.Context, string) (*changes.Undone, error)) (done *changes.Undone, err error) {
	err = call.holdingNames(ctx, what, func(tree *changes.Tree) (err error) {
		done, err = do(tree, ctx, string(call.s.id))
		return err
	})
	return done, err
}

// holdingNames calls do while nothing inside can rename or link.
func (call commandCall) holdingNames(ctx context.Context, what string, do func(*changes.Tree) error) error {
	tree, err := call.s.files.ready(ctx)
	if err != nil {
		return err
	}
	if err := call.s.stillThere(); err != nil {
		return err
	}
	hold, stop := context.WithTimeout(ctx, editorTime)
	defer stop()
	release, err := call.s.r.holdNames(hold, undoTime)
	if err != nil {
		return fmt.Errorf("nothing was %s, as files could be moved inside meanwhile (%w); try again, or close the session and say: gander session undo %s", what, err, call.s.id)
	}
	defer release()
	return do(tree)
}

// describeUndone says what an undo or a redo did to each file.
func describeUndone(what string, done *changes.Undone, said func(*changes.Change) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, the turn of %s:\n", what, done.Turn.Started.Format("15:04:05"))
	b.WriteString(describeFiles(done, said))
	b.WriteString("\nThe agent does not know of it; tell it if it matters.\n")
	return b.String()
}

func describeFiles(done *changes.Undone, said func(*changes.Change) string) string {
	var b strings.Builder
	for i, c := range done.Restored {
		if i == maxNamedFiles {
			fmt.Fprintf(&b, "- … and %d more\n", len(done.Restored)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", said(&c))
	}
	for _, s := range done.Skipped {
		b.WriteString("\n" + s + "\n")
	}
	if t := done.Turn; t.HeadBefore != t.HeadAfter {
		b.WriteString("\nThe turn moved HEAD: commits, branches and the index of git stay as they are.\n")
	}
	return b.String()
}
