package changes

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// maxDiffs is how many bytes of content a turn's differences are made of.
const maxDiffs = 64 << 20

// maxDiffed is the size up to which a file is shown as a difference of lines.
const maxDiffed = 1 << 20

// isText says whether content can be shown.
func isText(data []byte) bool {
	return len(data) <= maxDiffed && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0
}

// similarity is the share of lines, in percent, that two texts have in common.
func similarity(a, b []byte) int {
	lines := map[string]int{}
	for l := range bytes.Lines(a) {
		lines[string(l)] += len(l)
	}
	common := 0
	for l := range bytes.Lines(b) {
		if n := len(l); lines[string(l)] >= n {
			lines[string(l)] -= n
			common += n
		}
	}
	return 100 * common / max(len(a), len(b), 1)
}

// content is what a file was. It is nil for nothing, and an error when it is not kept.
func (t *Tree) content(f *File) ([]byte, error) {
	if f == nil || f.Type == TypeDir {
		return nil, nil
	}
	id, err := f.sum()
	if err != nil {
		return nil, err
	}
	return t.store.get(id)
}

func (f *File) sum() (id sum, err error) {
	if f.Sum == "" || f.Type == TypeSpecial || f.Type == TypeDir {
		return id, fmt.Errorf("the content of a %s of %d bytes is not kept", f.Type, f.Size)
	}
	if n, err := hex.Decode(id[:], []byte(f.Sum)); err != nil || n != len(id) {
		return id, fmt.Errorf("the record of it is damaged")
	}
	return id, nil
}

// Texts are what a changed text file was and is. ok is false for what is no text, too
// large, not kept, or closed by the rules by now.
func (t *Tree) Texts(c Change) (before, after string, ok bool) {
	if t.closed(c.Path) || c.From != "" && t.closed(c.From) {
		return "", "", false
	}
	for _, f := range []*File{c.Before, c.After} {
		if f != nil && f.Type != TypeFile {
			return "", "", false
		}
	}
	b, err := t.content(c.Before)
	if err != nil || !isText(b) {
		return "", "", false
	}
	a, err := t.content(c.After)
	if err != nil || !isText(a) {
		return "", "", false
	}
	return string(b), string(a), true
}

// Was is the text that a file had before a turn. ok is false for what was not there,
// and for what [Tree.Texts] does not have.
func (t *Tree) Was(b *Before, p Path) (text string, ok bool) {
	if b == nil || t.closed(p) {
		return "", false
	}
	dir, name := path.Split(string(p))
	e := b.m.dirs[strings.TrimSuffix(dir, "/")].finder()(name, 0)
	if e == nil || e.kind != kindFile || !e.read || e.hidden {
		return "", false
	}
	data, err := t.store.get(e.sum)
	if err != nil || !isText(data) {
		return "", false
	}
	return string(data), true
}

// closed says whether the rules hide a path now.
func (t *Tree) closed(p Path) bool {
	return t.o.Rules != nil && t.o.Rules.Ignored(t.o.Root+"/"+string(p), false)
}

// Diff is a turn's changes as a unified diff, with a line for what cannot be shown
// so. It ends at about limit bytes, and says so.
func (t *Tree) Diff(turn *Turn, limit int) string {
	var b strings.Builder
	files := turn.Files()
	looked := int64(0)
	for i, c := range files {
		if b.Len() > limit || looked > maxDiffs {
			fmt.Fprintf(&b, "\n%s not shown.\n", plural(len(files)-i, "more file is", "more files are"))
			break
		}
		for _, f := range []*File{c.Before, c.After} {
			if f != nil && f.Type == TypeFile && f.Size <= maxDiffed {
				looked += f.Size
			}
		}
		text := t.diffOf(c)
		if len(text) > limit {
			text = fmt.Sprintf("%s: %d bytes of difference, not shown\n", c.String(), len(text))
		}
		b.WriteString(text)
	}
	return b.String()
}

func (t *Tree) diffOf(c Change) string {
	if t.closed(c.Path) || c.From != "" && t.closed(c.From) {
		return "one file is closed by the ignore rules now\n"
	}
	before, after, ok := t.Texts(c)
	if !ok {
		return c.String() + " (not shown as text)\n"
	}
	old, now := "a/"+string(c.Path), "b/"+string(c.Path)
	if c.From != "" {
		old = "a/" + string(c.From)
	}
	if c.Before == nil {
		old = "/dev/null"
	}
	if c.After == nil {
		now = "/dev/null"
	}
	head := ""
	if c.Kind == Renamed || c.Before != nil && c.After != nil && c.Before.Mode != c.After.Mode {
		head = c.String() + "\n"
	}
	text := diff.Diff(Path(old).String(), []byte(before), Path(now).String(), []byte(after))
	_, text, _ = bytes.Cut(text, []byte("\n")) // "diff old new"
	if head == "" && len(text) == 0 {
		head = c.String() + "\n"
	}
	return head + string(text)
}
