package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// appendRecord appends r as one line with its newline. On an error dst is
// returned as it was.
func appendRecord(dst []byte, r *Record) ([]byte, error) {
	start := len(dst)
	dst, err := appendLine(dst, r)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '\n'), nil
}

func appendLine(dst []byte, r *Record) ([]byte, error) {
	switch body := r.Body.(type) {
	case nil:
		return dst, errors.New("the record has no body")
	case Unknown:
		return appendRaw(dst, r.Raw), nil
	case Update:
		dst = appendEnvelope(dst, r)
		return appendUpdate(dst, &body), nil
	default:
		return appendBody(appendEnvelope(dst, r), body)
	}
}

// appendEnvelope writes the fields that all records have, without the closing brace.
func appendEnvelope(dst []byte, r *Record) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, string(r.Body.Type()))
	if r.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = appendString(dst, r.ID)
	}
	if r.TurnID != "" {
		dst = append(dst, `,"turnId":`...)
		dst = appendString(dst, r.TurnID)
	}
	if _, ok := r.Body.(Header); ok { // it has createdAt instead
		return dst
	}
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	dst = append(dst, `,"timestamp":`...)
	return strconv.AppendInt(dst, at.UnixMilli(), 10)
}

// appendUpdate is appendBody for the record of which there are thousands a
// second; encoding/json would parse the raw objects again.
func appendUpdate(dst []byte, u *Update) []byte {
	if len(u.Update) > 0 {
		dst = append(dst, `,"update":`...)
		dst = appendRaw(dst, u.Update)
	}
	if u.Child != "" {
		dst = appendString(append(dst, `,"child":`...), string(u.Child))
	}
	if u.Sent == nil {
		return append(dst, '}')
	}
	dst = append(dst, `,"sent":[`...)
	for i, raw := range u.Sent {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendRaw(dst, raw)
	}
	return append(dst, "]}"...)
}

// appendBody closes an envelope with the fields of body.
func appendBody(dst []byte, body Body) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // raw fields stay as they are
	if err := enc.Encode(body); err != nil {
		return dst, fmt.Errorf("encoding a %s record: %w", body.Type(), err)
	}
	fields := bytes.TrimSuffix(b.Bytes(), []byte("\n"))[1:]
	if len(fields) > 1 {
		dst = append(dst, ',')
	}
	return append(dst, fields...), nil
}

// appendRaw appends a JSON value, on one line whatever it looked like.
func appendRaw(dst []byte, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	b := bytes.NewBuffer(dst)
	if err := json.Compact(b, raw); err != nil {
		return appendString(dst, string(raw))
	}
	return b.Bytes()
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always encodes
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
