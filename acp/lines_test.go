package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	tests := []struct {
		name, in string
		max      int
		want     []string // "!" is a line that was skipped
	}{
		{"empty", "", 10, nil},
		{"lines", "a\nb\n", 10, []string{"a", "b"}},
		{"blank", "\n\na\n", 10, []string{"", "", "a"}},
		{"last without newline", "a\nb", 10, []string{"a", "b"}},
		{"exactly the limit", "0123456789\nb\n", 10, []string{"0123456789", "b"}},
		{"one more", "0123456789x\nb\n", 10, []string{"!", "b"}},
		{"exactly the limit at the end", "0123456789", 10, []string{"0123456789"}},
		{"over the limit at the end", "0123456789xy", 10, []string{"!"}},
		{"longer than the buffer", long + "\nb\n", 300_000, []string{long, "b"}},
		{"far over the limit", long + "\nb\n", 100_000, []string{"!", "b"}},
		{"two over the limit", long + "\n" + long + "\nb", 10, []string{"!", "!", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLineReader(strings.NewReader(tt.in), tt.max)
			var got []string
			for {
				line, err := l.next()
				if errors.Is(err, errLineTooLong) {
					line = []byte("!")
				} else if err != nil {
					break
				}
				got = append(got, string(line))
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got %d lines, want %d", len(got), len(tt.want))
			}
		})
	}
}

// TestLineReaderMemory reads a line of 64 MB with a limit of 1 MB.
func TestLineReaderMemory(t *testing.T) {
	l := newLineReader(io.LimitReader(endless{}, 64<<20), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := l.next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errLineTooLong) {
		t.Fatalf("got %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("allocated %d bytes", used)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestMend(t *testing.T) {
	tests := []struct{ in, want string }{
		{`{"a":"b"}`, `{"a":"b"}`},
		{"\"\xff\"", "\"\uFFFD\""},
		{`"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{`"\uD83D\uDE00"`, `"\uD83D\uDE00"`},
		{`"\ud83d"`, `"\ufffd"`},
		{`"\ude00"`, `"\ufffd"`},
		{`"\ud83dx"`, `"\ufffdx"`},
		{`"\ud83d\n"`, `"\ufffd\n"`},
		{`"\ud83d\ud83d\ude00"`, `"\ufffd\ud83d\ude00"`},
		{`"\ude00\ud83d"`, `"\ufffd\ufffd"`},
		{`"\\ud83d"`, `"\\ud83d"`},
		{`"\\\ud83d"`, `"\\\ufffd"`},
		{`"\ud7ff\ue000"`, `"\ud7ff\ue000"`},
		{`"\ud83d\u0041"`, `"\ufffd\u0041"`},
		{`"\`, `"\`},
		{`"\u12`, `"\u12`},
	}
	for _, tt := range tests {
		in := []byte(tt.in)
		if got := mend(in); string(got) != tt.want {
			t.Errorf("mend(%s) = %s, want %s", tt.in, got, tt.want)
		}
		if string(in) != tt.in {
			t.Errorf("mend(%s) changed its argument", tt.in)
		}
	}
}

func TestScanAgreesWithEncodingJSON(t *testing.T) {
	for _, in := range []string{
		`{}`, ` { } `, `[]`, `7`, `"x"`, `null`,
		`{"a":1}`, `{"a":1,"b":[1,{"c":"}"}],"d":{"e":"\"]"}}`,
		"{\n \"a\" :\t[ ] ,\r\n\"b\" : \"\\\\\" }",
		`{"\u0061b":true,"":null,"a\"b":-1.5e3}`,
		`{"a":1,"a":2}`,
		`{"text":"\\\"","x":"\\"}`,
	} {
		want := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(in), &want) // not an object: no members
		got := map[string]json.RawMessage{}
		for key, value := range members([]byte(in)) {
			got[string(key)] = value
		}
		if len(got) != len(want) {
			t.Errorf("members(%s): got %d members, want %d", in, len(got), len(want))
		}
		for key, value := range want {
			if !bytes.Equal(got[key], value) {
				t.Errorf("members(%s)[%q] = %s, want %s", in, key, got[key], value)
			}
			if !bytes.Equal(member([]byte(in), key), value) {
				t.Errorf("member(%s, %q) is not %s", in, key, value)
			}
		}
	}
	for _, in := range []string{`[]`, `[1]`, `[1, "a,]" ,{"b":[2]},[[]] ]`, `{}`, `7`} {
		var want []json.RawMessage
		_ = json.Unmarshal([]byte(in), &want) // not an array: no elements
		n := 0
		for item := range array([]byte(in)) {
			if n >= len(want) || !bytes.Equal(item, want[n]) {
				t.Errorf("array(%s)[%d] = %s", in, n, item)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("array(%s): got %d elements, want %d", in, n, len(want))
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, in := range []string{"", "s1", `a"b\c`, "\n\x00", "é<&>", "\xff", "\u2028"} {
		var got string
		if err := json.Unmarshal(appendString(nil, in), &got); err != nil || got != strings.ToValidUTF8(in, "\uFFFD") {
			t.Errorf("appendString(%q): got %q, %v", in, got, err)
		}
	}
}

// FuzzScan: of valid JSON the scanner sees what encoding/json sees.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\\\""}],"\u0063":{}}`, `[{"a":1},"x"]`, ` { } `, `{"a":{"a":{"a":[]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		in = mend(in)
		if !json.Valid(in) {
			return
		}
		var want map[string]json.RawMessage
		_ = json.Unmarshal(in, &want) // not an object: no members
		seen := 0
		for key, value := range members(in) {
			if last, ok := want[string(key)]; !ok || !json.Valid(value) || !bytes.Equal(member(in, string(key)), last) {
				t.Fatalf("members(%q): %q is %q", in, key, value)
			}
			seen++
		}
		if seen < len(want) {
			t.Fatalf("members(%q): %d members of %d", in, seen, len(want))
		}
		var items []json.RawMessage
		_ = json.Unmarshal(in, &items) // not an array: no elements
		for item := range array(in) {
			if len(items) == 0 || !bytes.Equal(items[0], item) {
				t.Fatalf("array(%q): %q", in, item)
			}
			items = items[1:]
		}
		if len(items) > 0 {
			t.Fatalf("array(%q): %d elements are missing", in, len(items))
		}
	})
}
