package mcp

import (
	"fmt"
	"sync"

	"gander.dev/gander/developer"
)

// maxBatchAnswers bounds the answers to a batch, in bytes: they are held until the last is
// there. One that does not fit any more is an error instead.
const maxBatchAnswers = 32 << 20

// batch gathers the answers to the messages of one JSON-RPC batch, and sends them
// as one array when the last is there.
type batch struct {
	send func([]byte)

	// mu guards what follows.
	mu      sync.Mutex
	open    int    // answers to come, and one until all messages are handled
	answers []byte // the array so far, each answer after a "[" or a ","
}

// receive handles the messages with handle, which reports whether it answers, at
// once or later. A batch of which nothing is answered is not answered either.
func (b *batch) receive(messages [][]byte, handle func(line []byte, send func([]byte)) bool) {
	b.open = 1
	for _, line := range messages {
		b.expect(1)
		if !handle(line, func(answer []byte) { b.answer(line, answer) }) {
			b.expect(-1)
		}
	}
	b.expect(-1)
}

func (b *batch) answer(line, answer []byte) {
	b.mu.Lock()
	if len(b.answers)+len(answer) > maxBatchAnswers {
		answer = tooLargeForBatch(line, len(answer))
	}
	before := byte(',')
	if len(b.answers) == 0 {
		before = '['
	}
	b.answers = append(append(b.answers, before), answer...)
	b.mu.Unlock()
	b.expect(-1)
}

// tooLargeForBatch is the answer to a message whose answer has more bytes than there is room for.
func tooLargeForBatch(line []byte, size int) []byte {
	m, _ := parse(line)
	return replyError(m.ID, &rpcError{
		Code:    developer.InternalError,
		Message: fmt.Sprintf("the answer of %d bytes does not fit: those to a batch are limited to %d bytes together; send the request alone", size, maxBatchAnswers),
	})
}

func (b *batch) expect(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open += n; b.open == 0 && len(b.answers) > 0 {
		b.send(append(b.answers, ']'))
	}
}
