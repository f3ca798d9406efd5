package gateway

import "testing"

// FuzzUsage: whatever an endpoint answers is read without a panic, and little is kept of it.
func FuzzUsage(f *testing.F) {
	for _, seed := range []string{
		`{"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `{}}:`, "data: ok]: x\n\n", "data: })\ndata: x: y\n\n",
		"data: {\"response\":{\"usage\":{\"input_tokens\":1}}}\r\n\r\ndata: [DONE]\n\n", `{"a":"\\\"}}",[[[[[]]]]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var u usageReader
		u.read(answer)
		if len(u.word) > longestKey || len(u.taken) > longestUsage || u.depth < 0 {
			t.Errorf("kept a word of %d bytes, %d bytes of usage, at depth %d", len(u.word), len(u.taken), u.depth)
		}
	})
}
