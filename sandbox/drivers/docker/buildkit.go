package docker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// traceID marks what BuildKit says among a daemon's words: a StatusResponse of its
// control API, as protocol buffers.
const traceID = "moby.buildkit.trace"

var errTrace = errors.New("what BuildKit says cannot be read")

// A fields is the fields of a protocol buffers message that this needs: those that are
// bytes, by number.
type fields map[uint64][][]byte

// parseFields reads a message. Of the other kinds of fields only the numbers are kept.
func parseFields(b []byte) (fields, error) {
	const varint, fixed64, length, fixed32 = 0, 1, 2, 5
	all := fields{}
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errTrace
		}
		b = b[n:]
		var value []byte
		var size uint64
		switch key & 7 {
		case varint:
			_, n = binary.Uvarint(b)
			size = uint64(max(n, 0))
		case length:
			if size, n = binary.Uvarint(b); n > 0 {
				b = b[n:]
			}
		case fixed64:
			size = 8
		case fixed32:
			size = 4
		default:
			return nil, errTrace
		}
		if n <= 0 || size > uint64(len(b)) {
			return nil, errTrace
		}
		value, b = b[:size], b[size:]
		all[key>>3] = append(all[key>>3], value)
	}
	return all, nil
}

// text is the first value of a field.
func (f fields) text(number uint64) string {
	if len(f[number]) == 0 {
		return ""
	}
	return string(f[number][0])
}

// trace writes BuildKit's steps and their output as people read them.
type trace struct {
	out   io.Writer
	named map[string]bool // the steps that were named, by digest
}

// write takes what a daemon sends under traceID.
func (t *trace) write(aux json.RawMessage) error {
	const vertexes, logs = 1, 3 // of StatusResponse
	const name, started, failure = 3, 5, 7
	const message = 4 // of VertexLog
	var raw []byte
	err := json.Unmarshal(aux, &raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errTrace, err)
	}
	status, err := parseFields(raw)
	if err != nil {
		return err
	}
	for _, v := range status[vertexes] {
		step, err := parseFields(v)
		if err != nil {
			return err
		}
		if len(step[started]) > 0 && !t.named[step.text(1)] {
			t.named[step.text(1)] = true
			if _, err := fmt.Fprintln(t.out, step.text(name)); err != nil {
				return err
			}
		}
		if why := step.text(failure); why != "" {
			_, _ = fmt.Fprintln(t.out, why)
		}
	}
	for _, l := range status[logs] {
		line, err := parseFields(l)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(t.out, line.text(message)); err != nil {
			return err
		}
	}
	return nil
}
