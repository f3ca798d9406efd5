package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/natefinch/atomic"

	"gander.dev/gander/sandbox/rules/ignore"
)

// Options say whose files are compared, and what is kept of them.
type Options struct {
	// Root is the project's directory, absolute and without links.
	Root string
	// Dir is where what files were is kept, for all projects; it is made if need
	// be, for its owner alone.
	Dir string
	// Parent is the session that turns do work for, of whose turn they are a part.
	Parent string
	// Rules hide files; nil hides none.
	Rules *ignore.Set
	// MaxFile is the size up to which a file's content is kept. Default 8 MiB.
	MaxFile int64
	// MaxStore bounds what is kept of one project, in bytes on disk. Default 512 MiB.
	MaxStore int64
	// Keep is how long turns are kept. Default 30 days.
	Keep time.Duration
	// Time is how long one look at the tree may take. Default 10 s.
	Time time.Duration
	// Logger hears what goes wrong with keeping; nil means nobody does.
	Logger *slog.Logger
}

// A Tree is a project whose turns are compared.
type Tree struct {
	o      Options
	log    *slog.Logger
	root   *root
	store  *store
	window time.Duration
	asRoot bool

	mostInDir int   // entries of a directory that are compared
	mostPaths int64 // bytes of the paths of all of them
	mostTurns int64 // bytes of all lists of what turns did

	// The root's: files of others can be read by everybody or not by a sandbox, and
	// what an undo makes is given to them.
	owner, group uint32

	// mu is held for a look, and for an undo: one at a time. It guards what follows.
	mu      sync.Mutex
	last    *manifest
	version uint64  // of the rules, at the last look; 0 before the first
	stored  int     // generation of the store, at the last look
	dirty   bool    // last is newer than what is saved of it
	shut    bool    // content is still to be forgotten that rules close by now
	unkept  []*Turn // could not be written down; an undo does that first
}

// Open opens a project's tree and mends an undo that was cut short. Close it.
func Open(o Options) (*Tree, error) {
	o.MaxFile = min(cmp.Or(o.MaxFile, 8<<20), maxRecord)
	o.MaxStore = cmp.Or(o.MaxStore, 512<<20)
	o.Keep = cmp.Or(o.Keep, 30*24*time.Hour)
	o.Time = cmp.Or(o.Time, 10*time.Second)
	t := &Tree{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), asRoot: os.Geteuid() == 0, mostInDir: maxInDir, mostPaths: maxPaths, mostTurns: maxTurnsSize}
	var err error
	if t.root, err = openRoot(o.Root); err != nil {
		return nil, fmt.Errorf("opening the project to compare it: %w", err)
	}
	top, err := t.root.lookup(".")
	if err == nil {
		t.owner, t.group, t.window = top.uid, top.gid, clockWindow(o.Root)
		t.store, err = openStore(filepath.Join(o.Dir, key(o.Root)), o.MaxStore)
	}
	if err != nil {
		_ = t.root.Close()
		return nil, err
	}
	t.last = t.load()
	if err := t.mendAlone(); err != nil {
		t.log.Error("mending an undo that was cut short", "project", o.Root, "err", err)
	}
	return t, nil
}

// key names a project in a file name.
func key(root string) string {
	id := sha256.Sum256([]byte(root))
	return hex.EncodeToString(id[:8])
}

// Close saves what is known of the tree, so that the next Open need not read it again,
// and drops the content of turns that were removed meanwhile, see [Forget].
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), t.o.Time)
	defer done()
	err := errors.Join(t.keepTurns(ctx), t.save(), t.store.Close(), t.root.Close())
	return errors.Join(err, settle(ctx, t.o.Dir, t.o.Root))
}

// Prepare reads the tree for the first Begin, for as long as ctx lasts. A Begin
// meanwhile waits for its end.
func (t *Tree) Prepare(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.look(ctx); err != nil {
		return err
	}
	return t.save()
}

// Before is a tree before a turn.
type Before struct {
	// Whose says, at the end of the turn, who made changes of files, by their absolute paths;
	// nil: the turn made all.
	Whose func(paths []string) []Owner

	m *manifest
}

// Begin looks at the tree before a turn.
func (t *Tree) Begin(ctx context.Context) (*Before, error) {
	ctx, done := context.WithTimeout(ctx, t.o.Time)
	defer done()
	t.mu.Lock()
	defer t.mu.Unlock()
	m, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	return &Before{m: m}, nil
}

// keepTime is how long a turn that was compared waits to be kept, whatever became of
// the time for the look.
const keepTime = 2 * time.Second

// End looks at the tree after a turn and says what is different. A turn that
// changed something is kept for [Tree.Diff] and [Tree.Undo], under id, which must be in
// the order of time, as UUIDs of version 7 are. So is one of which that is not known,
// as its files could not be compared: b is nil where they could not before it. An error
// with a turn says that it is not kept yet; Undo does that before anything else.
func (t *Tree) End(ctx context.Context, b *Before, session, id string) (*Turn, error) {
	looking, done := context.WithTimeout(ctx, t.o.Time)
	defer done()
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, failed := t.lookAgain(looking, b)
	turn.ID, turn.Session, turn.Parent, turn.Root = id, session, t.o.Parent, t.o.Root
	if b != nil && b.Whose != nil {
		turn.attribute(b.Whose)
	}
	if turn.Empty() {
		return turn, nil
	}
	keeping, done := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer done()
	t.unkept = append(t.unkept, turn)
	kept := t.keepTurns(keeping)
	if failed != nil {
		return nil, errors.Join(failed, kept)
	}
	return turn, kept
}

// lookAgain compares the tree with what it was before a turn. mu is held.
func (t *Tree) lookAgain(ctx context.Context, b *Before) (*Turn, error) {
	if b == nil {
		return &Turn{Started: time.Now(), Ended: time.Now(), Unknown: "the files could not be looked at before it"}, nil
	}
	m, err := t.look(ctx)
	if err != nil {
		return &Turn{Started: b.m.at, Ended: time.Now(), Unknown: err.Error()}, err
	}
	turn := t.compare(ctx, b.m, m)
	if turn.Empty() && (b.m.cut || m.cut) {
		turn.Unknown = "there was no time to look at all files"
	}
	return turn, nil
}

// look looks at the tree. What ctx leaves no time for is taken to be as it was.
// mu is held.
func (t *Tree) look(ctx context.Context) (*manifest, error) {
	if err := t.unreadDropped(); err != nil {
		return nil, err
	}
	force := t.version == 0
	if t.o.Rules != nil {
		t.o.Rules.Refresh()
		force = force || t.version != t.ruleVersion()
	}
	var s *scan
	var m *manifest
	for range 3 { // rules that are found on the way hold for what was listed before
		before := t.ruleVersion()
		s = t.newScan(force)
		m = s.run(ctx)
		if force = t.ruleVersion() != before; !force {
			break
		}
	}
	if m.covers("") {
		return nil, fmt.Errorf("the project %s cannot be compared: %s", t.o.Root, m.note[""])
	}
	t.version = t.ruleVersion()
	t.readContent(ctx, s)
	m.head = readHead(t.root)
	t.dirty = t.dirty || len(s.work) > 0
	old := t.last
	t.last = m
	t.shut = t.shut || s.force && closedSince(old, m)
	if t.shut {
		if err := t.forget(ctx); err != nil {
			return nil, fmt.Errorf("forgetting what the ignore rules close by now: %w", err)
		}
		t.shut = false
	}
	return m, nil
}

// unreadDropped makes content that is not kept any more, or was not for want of
// room, count as unread, so that it is read and kept again. mu is held.
func (t *Tree) unreadDropped() error {
	now, err := t.store.generation()
	if err != nil || now == t.stored {
		return err
	}
	t.stored = now
	m := *t.last // a turn may have the other
	m.dirs = maps.Clone(m.dirs)
	t.last = &m
	for dir, l := range m.dirs {
		dropped := func(e entry) bool { return e.read && e.size <= t.o.MaxFile && !t.store.has(e.sum) }
		if !slices.ContainsFunc(l.entries, dropped) {
			continue
		}
		fresh := &listing{entries: slices.Clone(l.entries)}
		for i := range fresh.entries {
			fresh.entries[i].read = fresh.entries[i].read && !dropped(fresh.entries[i])
		}
		m.dirs[dir] = fresh
	}
	return nil
}

// closedSince says that something was read before that the rules hide now.
func closedSince(old, now *manifest) bool {
	for dir, l := range old.dirs {
		find := now.dirs[dir].finder()
		for i := range l.entries {
			was := &l.entries[i]
			if is := find(was.name, i); was.read && (is == nil && now.dirs[dir] == nil || is != nil && is.hidden) {
				return true
			}
		}
	}
	return false
}

// forget drops what nothing that is open refers to. mu is held.
func (t *Tree) forget(ctx context.Context) error {
	release, err := t.store.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	live, err := t.live()
	if err != nil {
		return err
	}
	t.dirty = true
	return t.store.compact(func(id sum) bool { return live[id] })
}

// ruleVersion is never 0.
func (t *Tree) ruleVersion() uint64 {
	if t.o.Rules == nil {
		return 1
	}
	return t.o.Rules.Version() + 1
}

// readContent reads and keeps the content of what changed.
func (t *Tree) readContent(ctx context.Context, s *scan) {
	if len(s.work) == 0 {
		return
	}
	r := &reader{root: t.root, store: t.store, window: t.window, maxFile: t.o.MaxFile, mine: t.mine}
	for _, w := range s.work {
		if w.e.kind == kindFile && w.e.names > 1 {
			if s.findTwins(ctx) {
				r.twins = s.twins
			}
			break
		}
	}
	release, err := t.store.hold(ctx)
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, context.Canceled):
		t.log.Warn("what files were is not kept for this turn", "err", err)
	}
	if err != nil {
		r.store = nil
	}
	r.readAll(ctx, s.work)
}

// mine says whether a file may be read for those in the sandbox: as root, gander
// could read what they cannot.
func (t *Tree) mine(in info) bool {
	return !t.asRoot || t.owner == 0 || in.uid == t.owner || in.mode&0o004 != 0
}

// turnFile is where a turn is kept.
func (t *Tree) turnFile(id string) string { return filepath.Join(t.turnsDir(), id+".json") }

func (t *Tree) turnsDir() string { return filepath.Join(t.store.dir, "turns") }

// writeFile replaces a file of the store, for its owner alone.
func writeFile(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(tmp), tmp.Sync(), tmp.Close())
	if err == nil {
		err = atomic.ReplaceFile(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
