package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const flooderName = "bench-flooder"

// floodSize is how many updates a turn brings.
const floodSize = 20_000

// sameFlood measures how many updates a second reach the client through the
// whole of gander, sandbox and transcript included, and through a plain proxy;
// from the same agent, to the same reader. Chunks may be merged on the way, so
// the first row counts words; the updates of a tool call never are.
func (b *bench) sameFlood() {
	flooder := b.program(flooderName)
	through := start(b.t, b.ganderACP(flooder))
	plain := start(b.t, b.command(nil, b.program(proxyName), flooder))
	for _, c := range []*client{through, plain} {
		defer c.stop()
		c.open(c.cmd.Dir)
	}
	for _, kind := range []struct{ name, what string }{
		{"chunks", "message chunks per second (words), beside a plain proxy"},
		{"tools", "tool call updates per second, beside a plain proxy"},
	} {
		var ours, theirs samples
		side := func(c *client, s *samples) func() {
			return func() { s.add(rate(c, kind.name)) }
		}
		alternate(1, side(through, &ours), side(plain, &theirs)) // the first time is not like the others
		ours, theirs = nil, nil
		alternate(b.runs(9), side(through, &ours), side(plain, &theirs))
		b.table.atLeast(3, pair{kind.what, ours, theirs, perSecond})
	}
}

// rate has an agent flood its client and returns the updates per second. All of
// them must arrive.
func rate(c *client, kind string) float64 {
	c.t.Helper()
	n := 0
	begun := time.Now()
	c.finish(floodPrompt+kind+" "+strconv.Itoa(floodSize), func(line []byte) { n += bytes.Count(line, []byte(floodMark)) })
	took := time.Since(begun)
	if n != floodSize {
		c.fail("%d of %d updates have arrived", n, floodSize)
	}
	return floodSize / took.Seconds()
}

const (
	// floodPrompt begins the prompts that the flooder obeys.
	floodPrompt = "flood "
	// floodMark is in every update once, and in nothing that gander says itself.
	floodMark = "|"
)

// flood is an agent that answers in goose's shapes and says as many updates as
// it is asked for, as fast as they are taken.
func flood(r io.Reader, w io.Writer) error {
	in, out := bufio.NewReaderSize(r, maxLine), bufio.NewWriterSize(w, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = answerFlood(out, line)
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// floodAnswers are the flooder's results by method.
var floodAnswers = map[string]string{
	"initialize": `{"protocolVersion":1,"agentCapabilities":{"loadSession":false,"promptCapabilities":{"image":true,"audio":false,"embeddedContext":true},` +
		`"mcpCapabilities":{"http":true,"sse":false},"sessionCapabilities":{"close":{}},"auth":{}},"authMethods":[],"agentInfo":{"name":"goose","version":"0"}}`,
	"session/new": `{"sessionId":"` + floodSession + `","modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"auto"}]},"configOptions":[],` +
		`"_meta":{"extensionResults":[]}}`,
	"session/prompt": `{"stopReason":"end_turn","usage":{"totalTokens":2,"inputTokens":1,"outputTokens":1}}`,
}

const floodSession = "20261120_1"

func answerFlood(w *bufio.Writer, line []byte) error {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
		return err // what is no request needs no answer
	}
	if m.Method == "session/prompt" {
		if err := floodTurn(w, m.Params); err != nil {
			return err
		}
	}
	result, ok := floodAnswers[m.Method]
	if !ok {
		result = "{}"
	}
	_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	return err
}

const (
	updateStart = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + floodSession + `","update":`

	chunkStart = updateStart + `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + floodMark
	chunkEnd   = `"},"messageId":"chatcmpl-9zgjz2","_meta":{"goose":{"created":1795199135,"messageId":"chatcmpl-9zgjz2"}}}}}` + "\n"

	toolStart = updateStart + `{"sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"` + floodMark
	toolEnd   = `"}}]}}}` + "\n"

	toolCall = updateStart + `{"sessionUpdate":"tool_call","toolCallId":"call_1","title":"shell · make","rawInput":{"command":"make"},` +
		`"_meta":{"goose":{"toolCall":{"toolName":"shell","extensionName":"developer"},"created":1795199135,"messageId":"chatcmpl-9zgjz2"}}}}}` + "\n"
	toolDone = updateStart + `{"sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"completed","content":[]}}}` + "\n"
)

// floodTurn says what a prompt "flood chunks 100" or "flood tools 100" asks for.
func floodTurn(w *bufio.Writer, params json.RawMessage) error {
	kind, n, err := floodOrder(params)
	if err != nil {
		return err
	}
	if kind == "tools" {
		_, _ = w.WriteString(toolCall) // the writer keeps its error
		defer func() { _, _ = w.WriteString(toolDone) }()
		return repeat(w, n, toolStart, toolEnd)
	}
	return repeat(w, n, chunkStart, chunkEnd)
}

func floodOrder(params json.RawMessage) (kind string, n int, err error) {
	var p struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return "", 0, err
	}
	for _, block := range p.Prompt {
		if order, ok := strings.CutPrefix(block.Text, floodPrompt); ok {
			_, err := fmt.Sscanf(order, "%s %d", &kind, &n)
			return kind, n, err
		}
	}
	return "", 0, fmt.Errorf("no block of the prompt begins with %q: %s", floodPrompt, params)
}

func repeat(w *bufio.Writer, n int, before, after string) error {
	var number []byte
	for i := range n {
		number = strconv.AppendInt(number[:0], int64(i), 10)
		_, _ = w.WriteString(before)
		_, _ = w.Write(number)
		if _, err := w.WriteString(after); err != nil {
			return err
		}
	}
	return nil
}
