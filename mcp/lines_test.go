package mcp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 100)
	tests := []struct {
		name, input string
		want        []string // "!" is a line that was too long
	}{
		{"empty", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"the last without its end", "a\nb", []string{"a", "b"}},
		{"blank", "\n \t\r\n\na\r\n", []string{"", "", "", "a"}},
		{"byte order mark", "\ufeffa\n", []string{"a"}},
		{"broken UTF-8", "a\xff\xc3b\n", []string{"a\uFFFDb"}},
		{"at the limit", long[:20] + "\n" + long[:20], []string{long[:20], long[:20]}},
		{"too long", long + "\na\n", []string{"!", "a"}},
		{"too long at the end", "a\n" + long, []string{"a", "!"}},
		{"by one", long[:21] + "\na", []string{"!", "a"}},
		{"longer than the buffer", strings.Repeat("y", 200<<10) + "\na\n", []string{"!", "a"}},
	}
	for _, tt := range tests {
		for kind, wrap := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader} {
			t.Run(tt.name+" "+kind, func(t *testing.T) {
				lines := newLineReader(wrap(strings.NewReader(tt.input)), 20)
				var got []string
				for {
					line, err := lines.next()
					if errors.Is(err, io.EOF) {
						break
					}
					switch {
					case errors.Is(err, errLineTooLong):
						got = append(got, "!")
					case err != nil:
						t.Fatal(err)
					default:
						got = append(got, string(line))
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestLineReaderFails(t *testing.T) {
	broken := errors.New("broken")
	lines := newLineReader(io.MultiReader(strings.NewReader("a"), iotest.ErrReader(broken)), 20)
	if line, err := lines.next(); !errors.Is(err, broken) {
		t.Errorf("got %q, %v", line, err)
	}
}

// The id of a message that is too long is found where clients put it.
func TestLostID(t *testing.T) {
	bulk := strings.Repeat(`"id":9,`, 3000)
	tests := []struct{ name, line, want string }{
		{"in front", `{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"BULK"}}`, "7"},
		{"in front, a string", `{"id": "a b" ,"params":{"x":"BULK"}}`, `"a b"`},
		{"at the end", `{"method":"m","params":{"x":"BULK"},"jsonrpc":"2.0","id":12}`, "12"},
		{"before the version at the end", `{"method":"m","params":{"x":"BULK"},"id":"q","jsonrpc":"2.0"}` + "\r", `"q"`},
		{"inside a string at the end", `{"method":"m","params":{"x":"BULK,"id":12}"}}`, ""},
		{"of something inside", `{"method":"m","params":{"x":"BULK","id":12}}`, ""},
		{"not JSON", `{"params":{"x":"BULK"},"id":012}`, ""},
		{"none", `BULK`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := strings.Replace(tt.line, "BULK", strings.ReplaceAll(bulk, `"`, `\"`), 1)
			if tt.name == "inside a string at the end" {
				line = strings.Replace(line, `,"id":12}"`, `,\"id\":12}"`, 1)
			}
			lines := newLineReader(strings.NewReader(line+"\nnext\n"), 1000)
			if _, err := lines.next(); !errors.Is(err, errLineTooLong) {
				t.Fatalf("error %v", err)
			}
			if got := string(lines.lostID()); got != tt.want {
				t.Errorf("id %q, want %q", got, tt.want)
			}
			if next, err := lines.next(); err != nil || !bytes.Equal(next, []byte("next")) {
				t.Errorf("then %q, %v", next, err)
			}
		})
	}
}
