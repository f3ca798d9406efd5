package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"unicode/utf8"
)

// errLineTooLong is returned by lineReader.next for a line that was skipped.
var errLineTooLong = errors.New("line too long")

// edge is how much of the beginning and of the end of a line that is too long is
// kept, to find its id.
const edge = 4 << 10

// lineReader cuts a byte stream into lines of bounded length.
type lineReader struct {
	r          *bufio.Reader
	max        int
	head, tail []byte // of the line that was too long
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line, tidied; the caller owns it. A last line without a
// newline counts. After errLineTooLong, which comes when the whole line has gone
// by, reading goes on.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		part, err := l.r.ReadSlice('\n')
		switch {
		case tooLong:
			l.keepTail(part)
		case len(line)+len(part) > l.max+1: // the newline does not count
			l.head, l.tail = bytes.Clone(line[:min(len(line), edge)]), nil
			if len(l.head) < edge {
				l.head = append(l.head, part[:min(len(part), edge-len(l.head))]...)
			}
			l.keepTail(part)
			line, tooLong = nil, true
		default:
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || len(line) == 0 && !tooLong):
			return nil, err
		case tooLong:
			return nil, errLineTooLong
		}
		return tidy(line), nil
	}
}

func (l *lineReader) keepTail(part []byte) {
	l.tail = append(l.tail, part...)
	if n := len(l.tail) - edge; n > 0 {
		l.tail = append(l.tail[:0], l.tail[n:]...)
	}
}

// lastMember matches an id that is the last member of a message. What closes a
// line closes the message itself, so that nothing inside it is taken for the id.
var lastMember = regexp.MustCompile(`,\s*"id"\s*:\s*(-?[0-9]+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// lostID is the id of the line that was too long, where it can be known: it comes
// before the bulk of the message, or at its end. Otherwise nil.
func (l *lineReader) lostID() json.RawMessage {
	if id := leadingID(l.head); id != nil {
		return id
	}
	if m := lastMember.FindSubmatch(l.tail); m != nil && json.Valid(m[1]) {
		return m[1]
	}
	return nil
}

// leadingID reads the members of a message that was cut off, as long as they are scalars.
func leadingID(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(tidy(head)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		if key == "id" {
			return value
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// tidy removes what peers put around a message, a byte order mark, blanks and the
// CR of a CRLF, and replaces broken UTF-8. The result is empty for a blank line.
func tidy(line []byte) []byte {
	line = bytes.Trim(bytes.TrimPrefix(line, byteOrderMark), " \t\r\n")
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	return line
}
