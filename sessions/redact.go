package sessions

import (
	"bytes"
	"encoding/json"
)

// redactLines returns the lines with redact applied to each; lines itself when
// nothing changes.
func redactLines(lines []byte, redact func([]byte) []byte) []byte {
	if redact == nil {
		return lines
	}
	var out []byte // nil as long as nothing changed
	start := 0
	for line := range bytes.Lines(lines) {
		content := bytes.TrimSuffix(line, []byte("\n"))
		clean := redactLine(content, redact)
		changed := !bytes.Equal(content, clean)
		if changed && out == nil {
			out = append(make([]byte, 0, len(lines)), lines[:start]...)
		}
		switch {
		case changed:
			out = append(append(out, clean...), '\n')
		case out != nil:
			out = append(out, line...)
		}
		start += len(line)
	}
	if out == nil {
		return lines
	}
	return out
}

// redactLine keeps a line a record: a secret may be a word like "message", so
// the envelope is not touched, and neither is the header, by whose ids and paths
// the session is found again. A record that redaction breaks is replaced.
func redactLine(line []byte, redact func([]byte) []byte) []byte {
	clean := redact(line)
	if bytes.Equal(line, clean) {
		return line
	}
	r := decodeRecord(line)
	if r.Body.Type() == TypeSession {
		return line
	}
	envelope := appendEnvelope(nil, &r)
	fields, ok := bytes.CutPrefix(line, append(envelope, ','))
	if !ok { // not written by appendLine
		return clean
	}
	clean = redact(append([]byte("{"), fields...))
	if !json.Valid(clean) || clean[0] != '{' || len(clean) < 3 {
		r.Body = Notice{Level: "warn", Text: "A record was left out: its secrets could not be taken out of it."}
		replaced, _ := appendLine(nil, &r) // a notice always encodes
		return replaced
	}
	return append(append(envelope, ','), clean[1:]...)
}
