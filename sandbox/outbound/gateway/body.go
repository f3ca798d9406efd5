package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
)

// observedBody is the body of an answer on its way in. It remembers the end, which is
// where endpoints say what went wrong.
type observedBody struct {
	res    *http.Response
	r      io.Reader
	closer io.Closer
	finish *finish
	tail   []byte
	bytes  int64
	usage  usageReader
	err    error // of reading; io.EOF when it was complete
}

// A countedReader reads what a call used from the answer as the endpoint sends it.
type countedReader struct {
	io.Reader
	usage *usageReader
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.usage.read(p[:n])
	return n, err
}

// tailSize is enough for the last events of a stream or for an error message.
const tailSize = 64 << 10

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.bytes += int64(n)
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

// eventObject begins an event of a stream that has an object in it.
var eventObject = regexp.MustCompile(`(?m)^data: ?\{`)

// message finds what an error says: the body itself, or the last event of a stream.
func (b *observedBody) message() string {
	data := b.tail
	if found := eventObject.FindAllIndex(data, -1); found != nil {
		data = data[found[len(found)-1][1]-1:]
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
