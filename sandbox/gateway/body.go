package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
)

// observedBody is the body of an answer on its way in. It remembers the end, which is
// where endpoints say what was used and what went wrong.
type observedBody struct {
	res    *http.Response
	r      io.Reader
	closer io.Closer
	finish *finish
	tail   []byte
	bytes  int64
	events int   // of a stream, about
	err    error // of reading; io.EOF when it was complete
}

// tailSize is enough for the last events of a stream or for an error message, also where an
// endpoint repeats there what the call says of itself (metadata, of which OpenAI takes 9,000
// characters, comes behind the usage).
const tailSize = 64 << 10

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.bytes += int64(n)
	b.events += bytes.Count(p[:n], eventStart)
	b.tail = append(b.tail, p[:n]...)
	if over := len(b.tail) - tailSize; over > tailSize { // not for each of many small pieces
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
	b.finish.see(b.tail, n)
	if err != nil {
		b.err = err
		b.res.Trailer = nil // trailers would pass unmasked
	}
	return n, err
}

func (b *observedBody) Close() error { return b.closer.Close() }

// eventStart begins an event of a stream.
var eventStart = []byte("data: ")

var usageField = regexp.MustCompile(`"usage"\s*:\s*\{`)

// usage finds the last usage object at the end of the body.
func (b *observedBody) usage() *Usage {
	found := usageField.FindAllIndex(b.tail, -1)
	if found == nil {
		return nil
	}
	var u struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
		Total      int `json:"total_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	start := found[len(found)-1][1] - 1
	if json.NewDecoder(bytes.NewReader(b.tail[start:])).Decode(&u) != nil {
		return nil
	}
	in := max(0, u.Prompt+u.Input)
	return &Usage{Input: in, Output: max(0, u.Completion+u.Output), Total: u.Total, Cached: min(in, max(0, u.Details.Cached+u.InputDetails.Cached))}
}

// message finds what an error says: the body itself, or the last event of a stream.
func (b *observedBody) message() string {
	data := b.tail
	if i := bytes.LastIndex(data, []byte("data: {")); i >= 0 {
		data = data[i+len("data: "):]
	}
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if json.NewDecoder(bytes.NewReader(data)).Decode(&e) != nil || e.Error == nil {
		return ""
	}
	var detail struct{ Message string }
	if json.Unmarshal(e.Error, &detail) == nil {
		return short(detail.Message)
	}
	var text string
	_ = json.Unmarshal(e.Error, &text) // anything else says nothing
	return short(text)
}
