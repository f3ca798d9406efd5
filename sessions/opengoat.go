package sessions

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gander.dev/gander/acp"
)

// Imported is what came of an import.
type Imported struct {
	Sessions []ImportedSession `json:"imported"`
	// Skipped is what was not taken, with the reason.
	Skipped []Skipped `json:"skipped"`
}

// ImportedSession is a session that was taken.
type ImportedSession struct {
	ID       acp.SessionID `json:"sessionId"`
	Key      string        `json:"sessionKey"`
	Agent    string        `json:"agentId"`
	Messages int           `json:"messages"`
	// Note says what of it could not be read.
	Note string `json:"note,omitempty"`
}

// Skipped is something that was not taken.
type Skipped struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Here is that the session is in the store already.
	Here bool `json:"here,omitempty"`
}

// Limits of an import, in bytes; what is larger is not OpenGoat's.
const (
	maxStoreFile    = 64 << 20
	maxImportFile   = 1 << 30
	maxImportedLine = 16 << 20
)

// ImportOpenGoat takes over the sessions of an OpenGoat home: of each
// agents/<agent>/sessions the entries of sessions.json, which may be a bare map,
// and the transcripts beside it. dir may also be the directory agents, or one
// with a sessions.json itself. Sessions keep their ids, so that importing again
// takes only what is new; the home is only read. Nothing outside of dir is,
// whatever links and paths in its files say, and what is not as it should be is
// reported and left out.
func (s *Store) ImportOpenGoat(ctx context.Context, dir string) (*Imported, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("importing from %s: %w; name the home directory of OpenGoat", dir, err)
	}
	defer root.Close()
	in := &importer{store: s, root: root, dir: dir, done: Imported{Sessions: []ImportedSession{}, Skipped: []Skipped{}}}
	places, err := in.places()
	if err != nil {
		return nil, fmt.Errorf("importing from %s: %w", dir, err)
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("importing from %s: there are no sessions of OpenGoat (agents/<agent>/sessions/sessions.json); name its home directory", dir)
	}
	for _, p := range places {
		if err := in.agent(ctx, p); err != nil {
			return nil, fmt.Errorf("importing from %s: %w", dir, err)
		}
	}
	return &in.done, nil
}

type importer struct {
	store *Store
	root  *os.Root
	dir   string
	done  Imported
}

// place is a directory of sessions, and whose.
type place struct{ agent, dir string }

func (in *importer) skip(what, format string, args ...any) {
	in.done.Skipped = append(in.done.Skipped, Skipped{What: cleanTitle(what), Why: fmt.Sprintf(format, args...)})
}

// places are the directories of sessions, in order.
func (in *importer) places() ([]place, error) {
	if _, err := in.root.Lstat("sessions.json"); err == nil {
		agent := filepath.Base(filepath.Dir(filepath.Clean(in.dir)))
		return []place{{cmp.Or(AgentSegment(agent), "imported"), "."}}, nil
	}
	base := "agents"
	if _, err := in.root.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		base = "."
	}
	names, err := fs.ReadDir(in.root.FS(), base)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, n := range names {
		dir := path.Join(base, n.Name(), "sessions")
		info, err := in.root.Lstat(filepath.FromSlash(dir))
		agent := AgentSegment(n.Name())
		if n.IsDir() && err == nil && info.IsDir() && agent != "" {
			out = append(out, place{agent, dir})
		}
	}
	return out, nil
}

// goatEntry is what sessions.json says of a session.
type goatEntry struct {
	SessionID      acp.SessionID `json:"sessionId"`
	UpdatedAt      float64       `json:"updatedAt"`
	Title          string        `json:"title"`
	TranscriptFile string        `json:"transcriptFile"`
	WorkspacePath  string        `json:"workspacePath"`
	WorkingPath    string        `json:"workingPath"`

	key string
}

func (in *importer) agent(ctx context.Context, p place) error {
	entries := in.entries(path.Join(p.dir, "sessions.json"))
	names, err := fs.ReadDir(in.root.FS(), p.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		id, ok := strings.CutSuffix(n.Name(), ".jsonl")
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e, known := entries[acp.SessionID(id)]
		if !known {
			e.SessionID = acp.SessionID(id) // an older one: its key has a new session
		}
		delete(entries, e.SessionID)
		in.session(p, path.Join(p.dir, n.Name()), &e)
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		in.skip(path.Join(p.dir, "sessions.json")+": "+string(id), "its transcript %s.jsonl is not in this directory", id)
	}
	return nil
}

// entries reads a sessions.json; what is wrong in it is skipped.
func (in *importer) entries(name string) map[acp.SessionID]goatEntry {
	raw, err := in.readSmall(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			in.skip(name, "%s", reasonOf(err))
		}
		return nil
	}
	var envelope struct {
		Sessions map[string]json.RawMessage `json:"sessions"`
	}
	byKey := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &envelope) == nil && envelope.Sessions != nil {
		byKey = envelope.Sessions
	} else if err := json.Unmarshal(raw, &byKey); err != nil {
		in.skip(name, "it is not JSON of OpenGoat: %v", err)
		return nil
	}
	out := map[acp.SessionID]goatEntry{}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		var e goatEntry
		if err := json.Unmarshal(byKey[key], &e); err != nil || CheckID(e.SessionID) != nil {
			if key != "schemaVersion" {
				in.skip(name+": "+key, "it has no usable session id")
			}
			continue
		}
		e.key = strings.ToLower(strings.TrimSpace(key))
		out[e.SessionID] = e
	}
	return out
}

// open opens a regular file of the home, no link, that is not too large.
func (in *importer) open(name string, limit int64) (*os.File, error) {
	info, err := in.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	f, err := openQuick(in.root, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(errors.New("it is not a regular file any more"), err, f.Close())
	}
	return f, nil
}

func (in *importer) readSmall(name string) ([]byte, error) {
	f, err := in.open(name, maxStoreFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxStoreFile))
}

// reasonOf is an error without the path that the report names anyway.
func reasonOf(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

func (in *importer) session(p place, name string, e *goatEntry) {
	if err := CheckID(e.SessionID); err != nil {
		in.skip(name, "its name is not a session id")
		return
	}
	if _, err := in.store.stat(e.SessionID); err == nil {
		in.done.Skipped = append(in.done.Skipped, Skipped{What: cleanTitle(name), Why: "the session is here already", Here: true})
		return
	}
	f, err := in.open(name, maxImportFile)
	if err != nil {
		in.skip(name, "%s", reasonOf(err))
		return
	}
	defer f.Close()
	c := converter{store: in.store, entry: e, agent: p.agent}
	h, err := c.header(f, filepath.Join(in.dir, filepath.FromSlash(name)))
	if err != nil {
		in.skip(name, "%s", reasonOf(err))
		return
	}
	if err := in.store.writeSession(h, func(w *bufio.Writer) error { return c.convert(f, w) }); err != nil {
		in.skip(name, "keeping it in %s: %s", in.store.dir, reasonOf(err))
		return
	}
	in.done.Sessions = append(in.done.Sessions, ImportedSession{h.SessionID, h.SessionKey, h.AgentID, c.messages, c.note()})
}

// converter makes records of this package of OpenGoat's.
type converter struct {
	store *Store
	entry *goatEntry
	agent string

	n                             int // records
	messages, bad, ours, tooLarge int
}

// header makes the header of the transcript's, the entry's and the place's.
func (c *converter) header(f *os.File, source string) (Header, error) {
	var first Header
	found := false
	err := eachLine(f, func(line []byte) error {
		if h, ok := decodeRecord(line).Body.(Header); ok && !found {
			first, found = h, true
			return io.EOF
		}
		return nil
	}, func() {})
	if err != nil && !errors.Is(err, io.EOF) {
		return Header{}, err
	}
	h := Header{
		SessionID: c.entry.SessionID, SessionKey: cmp.Or(c.entry.key, strings.ToLower(first.SessionKey), KeyOf("", c.agent)), AgentID: cmp.Or(AgentSegment(first.AgentID), c.agent),
		WorkspacePath: localPath(c.entry.WorkspacePath, first.WorkspacePath), WorkingPath: localPath(c.entry.WorkingPath, first.WorkingPath),
		CreatedAt: first.CreatedAt, Origin: OriginImport, ImportedFrom: source,
	}
	if len(h.SessionKey) > maxKey {
		h.SessionKey = string(h.SessionID)
	}
	if h.CreatedAt.IsZero() && c.entry.UpdatedAt > 0 && c.entry.UpdatedAt < math.MaxInt64/2 {
		h.CreatedAt = time.UnixMilli(int64(c.entry.UpdatedAt))
	}
	if y := h.CreatedAt.Year(); y < 1970 || y > 9999 {
		h.CreatedAt = time.Time{}
	}
	return c.store.filled(h), nil
}

const maxKey = 512 // bytes

// localPath is the first absolute path.
func localPath(paths ...string) string {
	for _, p := range paths {
		if filepath.IsAbs(p) && len(p) < 4096 && !strings.ContainsRune(p, 0) {
			return filepath.Clean(p)
		}
	}
	return ""
}

// convert writes the records. Those of types that nobody knows here stay as they are; those
// of types that only this package writes say what a session's agent, sandbox and permissions
// are, which is not for another program's file to say.
func (c *converter) convert(f *os.File, w *bufio.Writer) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	prefix := newPrefix()
	put := func(r *Record) error {
		if r.ID == "" {
			r.ID = fmt.Sprintf("%s%x", prefix, c.n)
		}
		c.n++
		line, err := appendRecord(nil, r)
		if err != nil {
			c.bad++
			return nil
		}
		_, err = w.Write(redactLines(line, c.store.o.Redact))
		return err
	}
	err := eachLine(f, func(line []byte) error {
		r := decodeRecord(line)
		switch b := r.Body.(type) {
		case Header:
			return nil
		case Unknown:
			if b.Kind == "" {
				c.bad++
				return nil
			}
		case Message:
			c.messages++
		case Compaction:
			b.LastID, b.FirstID = "", ""
			r.Body = b
		default:
			c.ours++
			return nil
		}
		return put(&r)
	}, func() { c.tooLarge++ })
	if title := cleanTitle(c.entry.Title); err == nil && title != "" {
		err = put(&Record{Body: Title{title, TitleByPerson}})
	}
	return err
}

func (c *converter) note() string {
	var parts []string
	if c.bad > 0 {
		parts = append(parts, count(c.bad, "line was not a record", "lines were no records"))
	}
	if c.ours > 0 {
		parts = append(parts, count(c.ours, "record was not OpenGoat's", "records were not OpenGoat's"))
	}
	if c.tooLarge > 0 {
		parts = append(parts, count(c.tooLarge, "line was too long", "lines were too long"))
	}
	if base := filepath.Base(filepath.ToSlash(c.entry.TranscriptFile)); c.entry.TranscriptFile != "" && base != string(c.entry.SessionID)+".jsonl" {
		parts = append(parts, "sessions.json named another file as its transcript, which was not read")
	}
	return strings.Join(parts, "; ")
}

// eachLine calls f with each line that is not blank, and long for one that is too
// long to be read.
func eachLine(in io.Reader, f func(line []byte) error, long func()) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var line []byte
		var err error
		tooLong := false
		for {
			var piece []byte
			piece, err = r.ReadSlice('\n')
			if tooLong = tooLong || len(line)+len(piece) > maxImportedLine; !tooLong {
				line = append(line, piece...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		line = bytes.TrimSpace(line)
		switch {
		case tooLong:
			long()
		case len(line) > 0:
			if err := f(line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
