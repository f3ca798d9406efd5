package editor

import (
	"io/fs"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// The limits of a diff.
const (
	maxDiffBytes = 1 << 20
	maxDiffFiles = 100
)

const missingHeader = "Invalid diff format: Missing file header (e.g., '--- a/path/to/file')"

// A patch is what a diff does to one file.
type patch struct {
	old, new string // names as in the diff; empty: no such file before, or after
	perm     fs.FileMode
	hunks    []hunk
}

// A hunk is one changed place.
type hunk struct {
	start      int  // its first line in the old file, from 1; 0: before the first, or unknown
	unnumbered bool // its header had no numbers
	lines      []patchLine
}

// A patchLine is a line of a hunk, without its end.
type patchLine struct {
	op   gitdiff.LineOp
	text string
	crlf bool // it ends with CRLF in the diff
	open bool // "No newline at end of file"
}

// parseDiff reads a unified diff, with or without a Markdown fence around it.
func parseDiff(diff string) ([]patch, error) {
	if !strings.Contains(diff, "---") || !strings.Contains(diff, "+++") {
		return nil, invalid("The 'diff' parameter must be in unified diff format")
	}
	if len(diff) > maxDiffBytes {
		return nil, invalid("Diff is too large (%d bytes). Maximum size is %d bytes (1MB).", len(diff), maxDiffBytes)
	}
	mended, err := recount(unfence(diff))
	if err != nil {
		return nil, invalid("Invalid diff format: %v", err)
	}
	parsed, _, err := gitdiff.Parse(strings.NewReader(mended))
	switch {
	case err != nil && strings.Contains(err.Error(), "patch fragment without file header"), err == nil && len(parsed) == 0:
		return nil, invalid(missingHeader)
	case err != nil:
		return nil, invalid("Invalid diff format: %v", err)
	case len(parsed) > maxDiffFiles:
		return nil, invalid("Too many files in diff (%d). Maximum is %d files.", len(parsed), maxDiffFiles)
	}
	patches := make([]patch, 0, len(parsed))
	for _, p := range parsed {
		converted, err := convert(p)
		if err != nil {
			return nil, err
		}
		patches = append(patches, converted)
	}
	return patches, nil
}

// unfence takes the diffs out of Markdown fences; without any it is all diff.
func unfence(diff string) string {
	var inside []string
	fenced, found := false, false
	for l := range strings.SplitSeq(diff, "\n") {
		switch {
		case !fenced && (strings.HasPrefix(l, "```diff") || strings.HasPrefix(l, "```patch")):
			fenced, found = true, true
		case fenced && strings.HasPrefix(l, "```"):
			fenced = false
		case fenced:
			inside = append(inside, l)
		}
	}
	if !found {
		return diff
	}
	return strings.Join(inside, "\n")
}

// convert keeps of a parsed file what is used here and refuses what cannot be done.
func convert(f *gitdiff.File) (patch, error) {
	p := patch{old: f.OldName, new: f.NewName, perm: newFile}
	name := f.NewName
	if f.IsDelete {
		name, p.new = f.OldName, ""
	}
	if f.IsNew {
		p.old = ""
	}
	const fileType, regular = 0o170000, 0o100000
	switch {
	case f.IsBinary:
		return p, invalid("Invalid diff format: '%s' is a binary patch; only text can be patched", name)
	case f.NewMode != 0 && f.NewMode&fileType != regular || f.OldMode != 0 && f.OldMode&fileType != regular:
		return p, invalid("Invalid diff format: '%s' is not a regular file in the diff; make links and submodules with the shell", name)
	case f.IsCopy:
		return p, invalid("Invalid diff format: '%s' is a copy of another file; copy it with the shell and patch the copy", name)
	case !f.IsRename && p.old != "" && p.new != "" && p.old != p.new:
		return p, invalid("Invalid diff format: the headers name '%s' and '%s', but no rename", p.old, p.new)
	case len(f.TextFragments) == 0 && !f.IsRename && !f.IsNew && !f.IsDelete:
		return p, invalid("Invalid diff format: no hunk for '%s'; a mode is changed with the shell", name)
	}
	if f.IsNew && f.NewMode&0o111 != 0 {
		p.perm = 0o755
	}
	for _, frag := range f.TextFragments {
		h := hunk{start: int(frag.OldPosition), unnumbered: frag.OldPosition == 0 && frag.NewPosition == 0}
		for _, l := range frag.Lines {
			s, ended := strings.CutSuffix(l.Line, "\n")
			crlf := false
			if ended {
				s, crlf = strings.CutSuffix(s, "\r")
			}
			h.lines = append(h.lines, patchLine{l.Op, s, crlf, !ended})
		}
		p.hunks = append(p.hunks, h)
	}
	return p, nil
}
