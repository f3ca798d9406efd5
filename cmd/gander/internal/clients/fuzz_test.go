package clients

import (
	"bytes"
	"testing"
)

// Whatever a file says, it is refused, or the entry goes in once and comes out again.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{
		"", "{}", "{\"agent_servers\": {\"a\": 1,},}", "// x\n{ /* y */ }\n", "{\"agents\":{\"gander\":{\"command\":\"gander\"}}}", "[1,]",
		"a: 1\n", "extensions:\n  developer:\n    enabled: true\n", "extensions:\n    a: {enabled: yes}\n# c\n", "extensions: {}\n", "a: |\n  x\n\n\nextensions:\nb: 'c'\n", "? x\n: y\n",
		"extensions:\n\n  developer: {type: builtin}\n", "extensions: &a\n  b: 1\nc: *a\n", "\xef\xbb\xbf{}", "{\r\n}\r\n", "a: 1\r\nextensions:\r\n  b:\r\n    c: 1\r\n",
		"a: 1\r\nextensions:", "a: |\n  x\n    @\nextensions:",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"zed", "opencode", "goose"} {
			target := Find(name)
			e := entryOf(target)
			in := bytes.Clone(text)
			put, err := target.Put(in, e)
			if !bytes.Equal(in, text) {
				t.Fatalf("%s: the caller's text was changed", name)
			}
			if err != nil {
				continue
			}
			again, err := target.Put(put, e)
			if err != nil || !bytes.Equal(again, put) {
				t.Fatalf("%s: a second time: %v\n%q\n%q", name, err, put, again)
			}
			taken, err := target.Take(put, nil, e)
			if err != nil {
				t.Fatalf("%s: taking it out of\n%s\n%v", name, put, err)
			}
			if more, err := target.Take(taken, nil, e); err != nil || !bytes.Equal(more, taken) {
				t.Fatalf("%s: something was left of it: %v\n%q\n%q", name, err, taken, more)
			}
		}
	})
}
