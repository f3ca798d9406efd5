package editor

import (
	"fmt"
	"strconv"
	"strings"
)

// The limits of view.
const (
	maxViewBytes = 400 * 1024
	maxViewLines = 2000
)

// A Range is the lines to view, from 1, both included; a To of -1 is the last line.
type Range struct{ From, To int64 }

// view is the file with numbered lines under a heading that names the path; r may be nil.
func (t text) view(path string, r *Range) (string, error) {
	total := int64(len(t.lines))
	if r == nil {
		if total > maxViewLines {
			return "", literally("File '%s' is %d lines long, recommended to read in with view_range (or searching) to get bite size content. If you do wish to read all the file, please pass in view_range with [1, %d] to read it all at once", path, total, total)
		}
		return "### " + path + "\n" + Fence(path, t.numbered(0, total)), nil
	}
	from, to, err := r.clamp(total)
	if err != nil {
		return "", err
	}
	end := "end"
	if r.To != -1 {
		end = strconv.FormatInt(r.To, 10)
	}
	return fmt.Sprintf("### %s (lines %d-%s)\n%s", path, r.From, end, Fence(path, t.numbered(from, to))), nil
}

// clamp makes a range one of a file with so many lines, as classic goose did: a
// start of 0 is the first line, an end beyond the last, or below -1, is the last.
func (r Range) clamp(total int64) (from, to int64, err error) {
	from, to = max(0, r.From-1), min(r.To, total)
	if r.To < 0 {
		to = total
	}
	if r.From < 0 || from >= total {
		return 0, 0, invalid("Start line %d is beyond the end of the file (total lines: %d)", r.From, total)
	}
	if from >= to {
		return 0, 0, invalid("Start line %d must be less than end line %d", r.From, r.To)
	}
	return from, to, nil
}

func (t text) numbered(from, to int64) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		if i > from {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d: %s", i+1, t.lines[i].text)
	}
	return b.String()
}
