package sessions_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"gander.dev/gander/sessions"
)

func BenchmarkAppend(b *testing.B) {
	update := json.RawMessage(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words of a reply "},"messageId":"chatcmpl-953gz8","_meta":{"goose":{"created":1795199140,"messageId":"chatcmpl-953gz8"}}}`)
	secrets := [][]byte{[]byte("sk-0123456789abcdef"), []byte("hunter2222"), []byte("another-secret")}
	redact := func(line []byte) []byte {
		for _, s := range secrets {
			if bytes.Contains(line, s) {
				b.Fatal("found")
			}
		}
		return line
	}
	for name, o := range map[string]*sessions.Options{"plain": nil, "redacted": {Redact: redact}} {
		b.Run(name, func(b *testing.B) {
			s, err := sessions.Open(b.TempDir(), o)
			if err != nil {
				b.Fatal(err)
			}
			tr, err := s.Create(sessions.Header{SessionID: id})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(update)))
			for b.Loop() {
				if err := tr.Append(sessions.Record{TurnID: "turn-1", Body: sessions.Update{Update: update}}); err != nil {
					b.Fatal(err)
				}
			}
			if err := tr.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkSync(b *testing.B) {
	s, err := sessions.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	tr, err := s.Create(sessions.Header{SessionID: id})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "x"}}); err != nil {
			b.Fatal(err)
		}
		if err := tr.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if err := tr.Close(); err != nil {
		b.Fatal(err)
	}
}
