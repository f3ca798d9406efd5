package sessions

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Any line is read as something, and what is read is written as one line that
// reads the same.
func FuzzRecord(f *testing.F) {
	for _, line := range []string{
		`{"type":"session","schemaVersion":1,"sessionId":"s","sessionKey":"k","agentId":"a","createdAt":"2026-02-07T10:00:00.000Z"}`,
		`{"type":"message","id":"1","turnId":"t","timestamp":1795199788254,"role":"user","content":"<é>"}`,
		`{"type":"update","timestamp":1,"update":{"a":"\u00e9"},"sent":[{},{}]}`,
		`{"type":"update","timestamp":1,"sent":[]}`,
		`{"type":"turn","timestamp":-5,"event":"end","usage":null}`,
		`{"type":"agent","exitCode":null}`, `{"type":7}`, `[]`, "\x00", `{"type":"config","value":`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r := decodeRecord(bytes.Clone(line))
		if r.Body == nil || !bytes.Equal(r.Raw, line) {
			t.Fatalf("record = %+v", r)
		}
		first, err := appendRecord(nil, &r)
		if err != nil || bytes.Count(first, []byte("\n")) != 1 || first[len(first)-1] != '\n' {
			t.Fatalf("written as %q, %v", first, err)
		}
		again := decodeRecord(first[:len(first)-1])
		if _, unknown := r.Body.(Unknown); !unknown && !json.Valid(again.Raw) {
			t.Fatalf("%q was written as %q, which is not JSON", line, first)
		}
		if again.Body.Type() != r.Body.Type() && r.Body.Type() != "" {
			t.Fatalf("%q became %q", line, first)
		}
	})
}
