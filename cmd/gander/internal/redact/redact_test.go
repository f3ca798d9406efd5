package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets(t *testing.T) {
	got := Secrets([]string{
		"LLM_API_KEY=sk-0123456789", "npm_config_authToken=  abcdefgh \n", "DB_PASSWORD=tr=ue=x", "CLIENT_SECRET=sk-0123456789",
		"A_KEY=", "B_KEY=abcd", "C_TOKEN=12345", "D_TOKEN=false", "E_TOKEN=3.14159", "PIN_SECRET=1234567890123",
		"KEYBOARD=qwertyuiop", "HOME=/home/me", "no equals",
	})
	want := []string{"sk-0123456789", "abcdefgh", "tr=ue=x", "1234567890123"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRedact(t *testing.T) {
	r := New([]string{"hunter22", "hunter2222", "pa\"ss\\wörd\n<x>/y", "tiny", "", "😀secret"})
	tests := []struct{ name, in, want string }{
		{"text", "it is hunter22, hunter2222!", "it is [redacted], [redacted]!"},
		{"quoted by Go", fmt.Sprintf("err=%q", "x pa\"ss\\wörd\n<x>/y"), `err="x [redacted]"`},
		{"object", `{"a": "hunter22hunter22x", "hunter22":[1, "hunter2"]}`, `{"a": "[redacted][redacted]x", "[redacted]":[1, "hunter2"]}`},
		{"escaped", `{"a":"\n\u0068unter\u00322 \"","b":"é\/"}`, `{"a":"\n[redacted] \"","b":"é\/"}`},
		{"escaped slash and html", `["pa\"ss\\w\u00f6rd\n\u003cx>\/y"]`, `["[redacted]"]`},
		{"surrogates", `["\ud83d\ude00secret \ud83d secret"]`, `["[redacted] \ud83d secret"]`},
		{"not quite JSON", `{"a":"hunter22"`, `{"a":"[redacted]"`},
		{"nothing", `{"a":"\u0041"}`, `{"a":"\u0041"}`},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got := r.Redact(in)
			if string(got) != tt.want {
				t.Errorf("Redact = %s\nwant     %s", got, tt.want)
			}
			if string(in) != tt.in {
				t.Errorf("the argument was changed to %s", in)
			}
			if tt.in == tt.want && len(in) > 0 && &got[0] != &in[0] {
				t.Error("a clean record was copied")
			}
		})
	}
}

func TestMaskIsNoSecret(t *testing.T) {
	if got := New([]string{"redacted"}).String("was redacted"); got != "was ***" {
		t.Errorf("got %q", got)
	}
}

func TestNil(t *testing.T) {
	var r *Redactor
	if got := r.String("x"); got != "x" {
		t.Errorf("got %q", got)
	}
	if got := string(New(nil).Redact([]byte("x"))); got != "x" {
		t.Errorf("got %q", got)
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	n, err := New([]string{"hunter22"}).Writer(&b).Write([]byte("a hunter22"))
	if n != 10 || err != nil || b.String() != "a [redacted]" {
		t.Errorf("Write = %d, %v; wrote %q", n, err, b.String())
	}
	if _, err := io.WriteString(New(nil).Writer(broken{}), "x"); err == nil {
		t.Error("the error was lost")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Whatever the input, no secret is left in any string and JSON stays JSON of the
// same shape.
func FuzzRedact(f *testing.F) {
	f.Add(`{"a":"x hunter22 \u0068unter22"}`, "hunter22")
	f.Add(`["\ud83d\ude00abc", "\\\"", 1e5, null]`, "😀abc")
	f.Add("plain\\text", `\text`)
	f.Add("6E400000", "00000")
	f.Fuzz(func(t *testing.T, in, secret string) {
		if len(secret) < MinLength || strings.Contains(mask, secret) || strings.ContainsAny(secret, "[]*") {
			return
		}
		out := New([]string{secret}).Redact([]byte(in))
		if !json.Valid([]byte(in)) {
			if bytes.Contains(out, []byte(secret)) {
				t.Errorf("%q is in %q", secret, out)
			}
			return
		}
		var after any
		dec := json.NewDecoder(bytes.NewReader(out))
		dec.UseNumber() // a number that no float64 holds is JSON all the same
		if err := dec.Decode(&after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		if slices.ContainsFunc(texts(after), func(s string) bool { return strings.Contains(s, secret) }) {
			t.Errorf("%q is in a string of %q", secret, out)
		}
	})
}

// texts are all strings of a JSON value.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, texts(e)...)
		}
		return all
	case map[string]any:
		var all []string
		for k, e := range v {
			all = append(append(all, k), texts(e)...)
		}
		return all
	}
	return nil
}

func BenchmarkRedact(b *testing.B) {
	r := New([]string{"sk-0123456789abcdef", "hunter2222", "another-secret", "ghp_abcdefghijklmnop", "postgres"})
	lines := map[string]string{
		"clean":   `{"type":"update","turnId":"t","timestamp":1795199788254,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words of a reply "},"messageId":"chatcmpl-953gz8","_meta":{"goose":{"created":1795199140}}}}`,
		"newline": `{"type":"update","turnId":"t","timestamp":1795199788254,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words of a\nreply"},"messageId":"chatcmpl-953gz8","_meta":{"goose":{"created":1795199140}}}}`,
		"ansi":    `{"type":"update","turnId":"t","timestamp":1795199788254,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\u001b[31mred\u001b[0m and more"},"messageId":"chatcmpl-953gz8","_meta":{"goose":{"created":1795199140}}}}`,
		"found":   `{"type":"update","turnId":"t","timestamp":1795199788254,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"it is hunter2222 and more"},"messageId":"chatcmpl-953gz8","_meta":{"goose":{"created":1795199140}}}}`,
	}
	for name, line := range lines {
		b.Run(name, func(b *testing.B) {
			in := []byte(line)
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				r.Redact(in)
			}
		})
	}
}
