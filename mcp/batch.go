package mcp

import (
	"bytes"
	"sync"
)

// batch gathers the answers to the messages of one JSON-RPC batch, and sends them
// as one array when the last is there.
type batch struct {
	send func([]byte)

	// mu guards what follows.
	mu      sync.Mutex
	open    int // answers to come, and one until all messages are handled
	answers [][]byte
}

// receive handles the messages with handle, which reports whether it answers, at
// once or later. A batch of which nothing is answered is not answered either.
func (b *batch) receive(messages [][]byte, handle func(line []byte, send func([]byte)) bool) {
	b.open = 1
	for _, line := range messages {
		b.expect(1)
		if !handle(line, b.answer) {
			b.expect(-1)
		}
	}
	b.expect(-1)
}

func (b *batch) answer(line []byte) {
	b.mu.Lock()
	b.answers = append(b.answers, line)
	b.mu.Unlock()
	b.expect(-1)
}

func (b *batch) expect(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open += n; b.open == 0 && len(b.answers) > 0 {
		b.send(append(append([]byte("["), bytes.Join(b.answers, []byte(","))...), ']'))
	}
}
