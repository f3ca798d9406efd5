package sessions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gander.dev/gander/acp"
)

// ErrCursor means that a cursor is not one that List returned.
var ErrCursor = errors.New("not a cursor of this list")

// ListOptions say which sessions List returns.
type ListOptions struct {
	// CWD, when set, leaves sessions of other directories out; links are resolved.
	CWD string
	// Agent, when set, leaves sessions of other agents out.
	Agent string
	// Cursor is the Next of an earlier page, empty for the first.
	Cursor string
	// Limit is the length of a page, 0 for all.
	Limit int
	// Temporary lists the sessions of which nothing is to be kept, and no others;
	// without it they are left out.
	Temporary bool
	// Archived lists those that are archived, or those that are not; nil both.
	Archived *bool

	// Parent lists the sessions that do work for this one, and no others. Delegates lists
	// those of all; without either they are left out.
	Parent    acp.SessionID
	Delegates bool

	all bool // all kinds
}

// A Page is a part of the list of sessions.
type Page struct {
	Sessions []Info
	// Next is the cursor of the next page; empty when this is the last. It
	// names the last session of this one, so that it stays good while others change.
	Next string
	// Damaged are the ids of transcripts that cannot be listed, see [ErrDamaged];
	// they are the same for every page and whatever the options say.
	Damaged []acp.SessionID
}

// List returns sessions, what happened last first. It reads of the transcripts
// only what has been written since they were looked at last.
func (s *Store) List(ctx context.Context, o ListOptions) (Page, error) {
	files, err := s.files()
	if err != nil {
		return Page{}, err
	}
	entries, damaged, err := s.fresh(ctx, files)
	if err != nil {
		return Page{}, err
	}
	slices.SortFunc(entries, newestFirst)
	if o.Cursor != "" {
		after, err := parseCursor(o.Cursor)
		if err != nil {
			return Page{}, err
		}
		start, _ := slices.BinarySearchFunc(entries, after, newestFirst)
		for start < len(entries) && newestFirst(entries[start], after) == 0 {
			start++
		}
		entries = entries[start:]
	}
	p, err := o.page(entries)
	p.Damaged = damaged
	return p, err
}

func newestFirst(a, b *entry) int {
	return cmp.Or(cmp.Compare(b.updated, a.updated), strings.Compare(string(b.id), string(a.id)))
}

func (o *ListOptions) page(entries []*entry) (Page, error) {
	p := Page{Sessions: make([]Info, 0, o.atMost(len(entries)))}
	for _, e := range entries {
		if !o.mayMatch(e) {
			continue
		}
		info, err := e.info()
		if err != nil {
			return Page{}, err
		}
		if o.CWD != "" && !sameDir(&info, o.CWD) || o.Agent != "" && info.Agent != o.Agent || info.Temporary != o.Temporary && !o.all || info.Parent != o.Parent && !o.Delegates && !o.all || o.Archived != nil && info.Archived != *o.Archived {
			continue
		}
		if o.Limit > 0 && len(p.Sessions) == o.Limit {
			p.Next = cursorOf(&p.Sessions[o.Limit-1])
			break
		}
		p.Sessions = append(p.Sessions, info)
	}
	return p, nil
}

// atMost is how many of some entries a page has, 0 when that takes a look at each.
func (o *ListOptions) atMost(entries int) int {
	switch {
	case o.CWD != "" || o.Agent != "" || o.Temporary || o.Parent != "":
		return 0
	case o.Limit > 0:
		return min(o.Limit, entries)
	}
	return entries
}

// mayMatch tells most of the others apart without decoding them.
func (o *ListOptions) mayMatch(e *entry) bool {
	if o.Temporary && !bytes.Contains(e.raw, []byte(`"temporary":true`)) {
		return false
	}
	if o.Parent != "" && !e.mentions(string(o.Parent)) {
		return false
	}
	if o.CWD == "" {
		return true
	}
	return e.mentions(o.CWD) || e.mentions(realPath(o.CWD)) || bytes.Contains(e.raw, []byte(`"workingPath":""`))
}

// mentions reports whether a value is in the entry, as JSON has it.
func (e *entry) mentions(value string) bool {
	quoted, _ := json.Marshal(value) // a string always encodes
	return bytes.Contains(e.raw, quoted)
}

func (e *entry) info() (Info, error) {
	f, err := e.fold()
	return f.Info, err
}

func (e *entry) fold() (fold, error) {
	var f fold
	if err := json.Unmarshal(e.raw, &f); err != nil {
		return fold{}, fmt.Errorf("reading the index of sessions: %w", err)
	}
	f.ID = e.id // whatever a copied file says
	return f, nil
}

func cursorOf(i *Info) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", i.UpdatedAt.UnixMilli(), i.ID))
}

func parseCursor(cursor string) (*entry, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, ErrCursor
	}
	at, id, ok := strings.Cut(string(raw), " ")
	updated, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || CheckID(acp.SessionID(id)) != nil {
		return nil, ErrCursor
	}
	return &entry{id: acp.SessionID(id), updated: updated}, nil
}

// Info returns what is known of a session. Of its transcript only what is new is read.
func (s *Store) Info(ctx context.Context, id acp.SessionID) (Info, error) {
	f, err := s.fold(ctx, id)
	return f.Info, err
}

func (s *Store) fold(ctx context.Context, id acp.SessionID) (fold, error) {
	f, err := s.stat(id)
	if err == nil {
		var entries []*entry
		var damaged []acp.SessionID
		entries, damaged, err = s.fresh(ctx, []transcriptFile{f})
		switch {
		case err == nil && len(entries) == 1:
			return entries[0].fold()
		case err == nil && len(damaged) == 1:
			err = s.damaged(id)
		}
	}
	return fold{}, fmt.Errorf("session %s: %w", id, cmp.Or(err, ErrNotFound))
}
