package router

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/router/changes"
)

// wholeTexts are the texts of files that a turn replaces as a whole: agents say only what
// they write, and a difference without the text before would show a new file.
type wholeTexts struct {
	files   *comparer
	before  *changes.Before    // nil: not known
	written map[string]*string // by the turn so far, of the files that it wrote as a whole; nil: too much to be kept
	held    int                // the length of these texts
	lost    bool               // more files were written than are in written
}

// maxWritten bounds the texts in wholeTexts together, in bytes.
const maxWritten = 16 << 20

// maxCompleted bounds what an update is completed with, in bytes.
const maxCompleted = 4 << 20

// complete gives the differences in a tool call's content that do not say what was
// before the text of then. What is not known, of files that are not compared or are no
// text, stays out, as for a new file, and so does what would be more than maxCompleted
// together. Paths are absolute.
func (w *wholeTexts) complete(content json.RawMessage) (list []json.RawMessage, changed bool) {
	list = listOf(content)
	room := maxCompleted
	for i, raw := range list {
		old, text := acp.Member(raw, "oldText"), acp.Member(raw, "newText")
		f := fileOf(raw)
		if f.Type != "diff" || len(text) == 0 || text[0] != '"' {
			continue
		}
		if len(old) == 0 && room > 0 {
			if was, ok := w.text(f.Path); ok && len(was) <= room {
				room -= len(was)
				list[i], changed = acp.WithFields(raw, map[string]any{"oldText": was}), true
			}
		}
		if whole := len(old) == 0 || bytes.Equal(old, []byte("null")); whole && len(f.Path) <= maxInput {
			w.wrote(f.Path, text)
		}
	}
	return list, changed
}

// wrote notes that a file has a text, which is raw.
func (w *wholeTexts) wrote(path string, raw json.RawMessage) {
	was, known := w.written[path]
	if !known && len(w.written) >= maxShownDiffs {
		w.lost = true // what that file had before the turn is not what it has
		return
	}
	if was != nil {
		w.held -= len(*was)
	}
	text := shortText(raw)
	if text != nil {
		if w.held+len(*text) > maxWritten {
			text = nil
		} else {
			w.held += len(*text)
		}
	}
	w.written[path] = text
}

// shortText is a raw JSON string; nil for one that is too long to be kept.
func shortText(raw json.RawMessage) *string {
	if len(raw) > maxShownText {
		return nil
	}
	text := stringOf(raw)
	return &text
}

// text is what a file has, as far as the turn has changed it as a whole.
func (w *wholeTexts) text(path string) (string, bool) {
	if text, ok := w.written[path]; ok {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	if w.before == nil || w.lost {
		return "", false
	}
	rel, err := filepath.Rel(w.files.s.cwd, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return w.files.tree.Was(w.before, changes.Path(filepath.ToSlash(rel)))
}
