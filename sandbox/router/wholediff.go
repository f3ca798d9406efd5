package router

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/changes"
)

// wholeTexts are the texts of files that a turn replaces as a whole: agents say only what
// they write, and a difference without the text before would show a new file.
type wholeTexts struct {
	files   *comparer
	before  *changes.Before   // nil: not known
	written map[string]string // by the turn so far, of the files that it wrote as a whole
}

// complete gives the differences in a tool call's content that do not say what was
// before the text of then. What is not known, of files that are not compared or are no
// text, stays out, as for a new file. Paths are absolute.
func (w *wholeTexts) complete(content json.RawMessage) (list []json.RawMessage, changed bool) {
	list = listOf(content)
	for i, raw := range list {
		var d struct {
			Type, Path string
			OldText    json.RawMessage
			NewText    *string
		}
		if json.Unmarshal(raw, &d) != nil || d.Type != "diff" || d.NewText == nil {
			continue
		}
		if len(d.OldText) == 0 {
			if text, ok := w.text(d.Path); ok {
				list[i], changed = acp.WithFields(raw, map[string]any{"oldText": text}), true
			}
		}
		if whole := len(d.OldText) == 0 || bytes.Equal(d.OldText, []byte("null")); whole && len(w.written) < maxShownDiffs {
			w.written[d.Path] = *d.NewText
		}
	}
	return list, changed
}

// text is what a file has, as far as the turn has changed it as a whole.
func (w *wholeTexts) text(path string) (string, bool) {
	if text, ok := w.written[path]; ok {
		return text, true
	}
	if w.before == nil {
		return "", false
	}
	rel, err := filepath.Rel(w.files.s.cwd, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return w.files.tree.Was(w.before, changes.Path(filepath.ToSlash(rel)))
}
