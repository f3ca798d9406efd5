package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// errLineTooLong is returned by lineReader.next for a line that was skipped.
var errLineTooLong = errors.New("line too long")

// lineReader cuts a byte stream into lines of bounded length.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line without its end; the caller owns it. A last line
// without a newline counts. After errLineTooLong, which comes when the whole
// line has gone by, reading goes on.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		part, err := l.r.ReadSlice('\n')
		switch {
		case tooLong:
		case len(line)+len(part) > l.max+1: // the newline does not count
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
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// tidy removes what peers put around a message: a byte order mark, blanks, the
// CR of a CRLF. The result is empty for a blank line.
func tidy(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, byteOrderMark), " \t\r\n")
}

// mend replaces what strict parsers reject although encoding/json does not:
// broken UTF-8, and escapes of half a surrogate pair, which JavaScript programs
// write when they cut a text in the middle of an emoji. line itself is not changed.
func mend(line []byte) []byte {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	for i, cloned := 0, false; i < len(line); {
		n := bytes.IndexByte(line[i:], '\\')
		if n < 0 || i+n+1 >= len(line) {
			break
		}
		i += n
		size, broken := escapeSize(line[i:])
		if broken {
			if !cloned {
				line, cloned = bytes.Clone(line), true
			}
			copy(line[i+2:], "fffd")
		}
		i += size
	}
	return line
}

// escapeSize is the length of the escape sequence at the start of b; a
// surrogate pair is one sequence of twelve bytes. broken marks a lone surrogate.
func escapeSize(b []byte) (size int, broken bool) {
	if len(b) < 6 || b[1] != 'u' {
		return min(2, len(b)), false
	}
	if b[2] != 'd' && b[2] != 'D' || b[3] < '8' {
		return 6, false
	}
	high := isHighSurrogate(b[3])
	if high && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' && (b[8] == 'd' || b[8] == 'D') && b[9] > '9' && !isHighSurrogate(b[9]) {
		return 12, false
	}
	return 6, true
}

// isHighSurrogate looks at the second hex digit of \uDXXX: 8 to b open a pair, c to f close one.
func isHighSurrogate(c byte) bool {
	return c == '8' || c == '9' || c == 'a' || c == 'b' || c == 'A' || c == 'B'
}
