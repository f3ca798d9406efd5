package gateway

import "encoding/json"

// usageReader finds in an answer, while it passes, what the call used: the object "usage" at
// the top of the body or of an event of a stream, or of the "response" or "message" that an event holds.
// It goes by the structure: what a call says of itself is repeated in its answer, and may have
// the same names in it. It remembers little, whatever the size of the answer.
type usageReader struct {
	said   *Usage // the last
	begun  bool   // it is of the beginning of an answer in Anthropic's protocol
	events int    // of a stream, about

	form   answerForm
	column int // of a line of a stream: how much of its field was read; -1 for one of another

	// Of the JSON that is being read.
	depth             int
	inString, escaped bool
	word              []byte    // the last string, cut off when it is none of interest
	keys              [3]string // by depth
	taken             []byte    // of the usage that is being read; nil outside of one
	outside           int       // the depth around it
}

type answerForm int

const (
	formUnknown answerForm = iota
	formJSON
	formStream
)

const (
	dataField = "data:"
	// longestKey is the longest of interest, and a byte by which others differ.
	longestKey = len("response") + 1
	// longestUsage is many times what endpoints write.
	longestUsage = 16 << 10
)

// read takes in the next bytes of the answer.
func (u *usageReader) read(p []byte) {
	for _, b := range p {
		if u.form == formUnknown && b > ' ' {
			u.form = formStream
			if b == '{' {
				u.form = formJSON
			}
		}
		switch u.form {
		case formJSON:
			u.json(b)
		case formStream:
			u.line(b)
		}
	}
}

// line takes in a byte of a stream, whose events end with a blank line.
func (u *usageReader) line(b byte) {
	switch {
	case b == '\r':
	case b == '\n':
		if u.column == 0 {
			*u = usageReader{said: u.said, begun: u.begun, events: u.events, form: u.form, word: u.word}
		}
		u.column = 0
	case u.column == len(dataField):
		u.json(b)
	case u.column >= 0 && b == dataField[u.column]:
		if u.column++; u.column == len(dataField) {
			u.events++
		}
	default:
		u.column = -1
	}
}

func (u *usageReader) json(b byte) {
	if u.taken != nil && len(u.taken) < longestUsage {
		u.taken = append(u.taken, b)
	}
	switch {
	case u.escaped:
		u.escaped = false
	case u.inString && b == '\\':
		u.escaped = true
	case b == '"':
		if u.inString = !u.inString; u.inString {
			u.word = u.word[:0]
		}
	case u.inString:
		if len(u.word) < longestKey {
			u.word = append(u.word, b)
		}
	case b == ':' && u.depth < len(u.keys):
		u.keys[u.depth] = string(u.word)
	case b == '{' || b == '[':
		if b == '{' && u.atUsage() {
			u.taken, u.outside = []byte{b}, u.depth
		}
		if u.depth++; u.depth < len(u.keys) {
			u.keys[u.depth] = ""
		}
	case b == '}' || b == ']':
		if u.depth == 0 { // nothing was begun
			return
		}
		if u.depth--; u.taken != nil && u.depth == u.outside {
			u.take()
		}
	}
}

func (u *usageReader) atUsage() bool {
	return u.depth == 1 && u.keys[1] == "usage" || u.depth == 2 && (u.keys[1] == "response" || u.keys[1] == "message") && u.keys[2] == "usage"
}

// take reads the object that has ended. One that counts no tokens says nothing.
func (u *usageReader) take() {
	var said struct {
		Prompt     *int `json:"prompt_tokens"`
		Completion *int `json:"completion_tokens"`
		Input      *int `json:"input_tokens"`
		Output     *int `json:"output_tokens"`
		// Anthropic's input tokens are without those of its cache, and its streams say what came
		// in at their beginning and what went out at their end.
		Written *int `json:"cache_creation_input_tokens"`
		Read    *int `json:"cache_read_input_tokens"`
		Total   int  `json:"total_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	err := json.Unmarshal(u.taken, &said)
	u.taken = nil
	if err != nil || said.Prompt == nil && said.Completion == nil && said.Input == nil && said.Output == nil {
		return
	}
	in := max(0, value(said.Prompt)+value(said.Input)+max(0, value(said.Written))+max(0, value(said.Read)))
	out := max(0, value(said.Completion)+value(said.Output))
	now := &Usage{Input: in, Output: out, Total: said.Total, Cached: min(in, max(0, said.Details.Cached+said.InputDetails.Cached+value(said.Read)))}
	if u.begun && u.said != nil {
		now.Input, now.Output, now.Cached = max(now.Input, u.said.Input), max(now.Output, u.said.Output), max(now.Cached, u.said.Cached)
	}
	u.begun = u.begun || u.depth == 2 && u.keys[1] == "message"
	u.said = now
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
