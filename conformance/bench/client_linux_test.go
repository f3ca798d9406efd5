package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// patience is how long an answer may take; it only bounds a failing run.
const patience = time.Minute

// maxLine is longer than any frame of an agent.
const maxLine = 4 << 20

// A client is an ACP client of one agent. It reads in the goroutine that calls
// it, so that nothing of the measuring program stands between a frame and its time.
type client struct {
	t       *testing.T
	cmd     *exec.Cmd
	copiers []*exec.Cmd // what the output goes through on its way
	stdin   io.WriteCloser
	stdout  *os.File
	lines   *bufio.Reader
	stderr  bytes.Buffer
	begun   time.Time
	lastID  int
	session string
}

// start starts an agent. The client is stopped when the test ends.
func start(t *testing.T, cmd *exec.Cmd, copiers ...*exec.Cmd) *client {
	t.Helper()
	c := &client{t: t, cmd: cmd, copiers: copiers}
	t.Cleanup(c.stop)
	cmd.Stderr, cmd.WaitDelay = &c.stderr, 10*time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	c.stdout = c.connect(append([]*exec.Cmd{cmd}, copiers...))
	c.lines = bufio.NewReaderSize(c.stdout, maxLine)
	c.begun = time.Now()
	for _, p := range append([]*exec.Cmd{cmd}, copiers...) {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for _, end := range []any{p.Stdin, p.Stdout} { // our copies, so that the end is seen
			if f, ok := end.(*os.File); ok {
				_ = f.Close()
			}
		}
	}
	return c
}

// connect gives each command the output of the former and returns that of the last.
func (c *client) connect(commands []*exec.Cmd) *os.File {
	c.t.Helper()
	var from *os.File
	for _, cmd := range commands {
		r, w, err := os.Pipe()
		if err != nil {
			c.t.Fatal(err)
		}
		if from != nil {
			cmd.Stdin = from
		}
		cmd.Stdout = w
		from = r
	}
	return from
}

// stop ends the agent by the end of its input, and by force when that is not enough.
func (c *client) stop() {
	if c.cmd.Process == nil || c.cmd.ProcessState != nil {
		return
	}
	_ = c.stdin.Close()
	force := time.AfterFunc(10*time.Second, func() {
		c.t.Error("an agent did not end with its input and was killed")
		_ = c.cmd.Process.Kill()
	})
	defer force.Stop()
	_ = c.stdout.Close()
	_ = c.cmd.Wait() // whatever it says, it is gone
	for _, p := range c.copiers {
		if p.Process != nil {
			_ = p.Wait()
		}
	}
}

// fail ends the test with what the agent said last.
func (c *client) fail(format string, args ...any) {
	c.t.Helper()
	c.stop() // stderr is complete then
	said := c.stderr.Bytes()
	c.t.Fatalf("%s: %s\nits stderr ends with: %s", c.cmd.Args, fmt.Sprintf(format, args...), said[max(0, len(said)-2000):])
}

// send writes a frame.
func (c *client) send(frame map[string]any) {
	c.t.Helper()
	frame["jsonrpc"] = "2.0"
	line, err := json.Marshal(frame)
	if err == nil {
		_, err = c.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		c.fail("writing: %v", err)
	}
}

// next reads a line, which is valid until the following call.
func (c *client) next() []byte {
	c.t.Helper()
	line, err := c.lines.ReadSlice('\n')
	if err != nil {
		c.fail("reading: %v", err)
	}
	return line
}

var updateMark = []byte(`"session/update"`)

// request sends a request and returns its result; every update that comes
// before it is given to each.
func (c *client) request(method string, params any, each func(line []byte)) json.RawMessage {
	c.t.Helper()
	c.lastID++
	if err := c.stdout.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.fail("%v", err)
	}
	c.send(map[string]any{"id": c.lastID, "method": method, "params": params})
	for {
		line := c.next()
		if bytes.Contains(line[:min(len(line), 100)], updateMark) {
			if each != nil {
				each(line)
			}
			continue
		}
		if result, err := answerTo(c.lastID, line); err != nil {
			c.fail("%s: %v", method, err)
		} else if result != nil {
			return result
		}
	}
}

// answerTo returns the result when a line is the response to a request.
func answerTo(id int, line []byte) (json.RawMessage, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
		return nil, err
	case m.Method != "" && m.ID != nil:
		return nil, errors.New("the agent wants something: " + string(line))
	case m.Method != "" || string(m.ID) != fmt.Sprint(id):
		return nil, nil
	case m.Error != nil:
		return nil, errors.New(string(m.Error))
	}
	return m.Result, nil
}

func (c *client) initialize() {
	c.t.Helper()
	c.request("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil)
}

// open initializes the agent and opens a session.
func (c *client) open(cwd string) {
	c.t.Helper()
	c.initialize()
	c.newSession(cwd)
}

// newSession opens a session of an agent that is initialized; the prompts that follow are its.
func (c *client) newSession(cwd string) {
	c.t.Helper()
	result := c.request("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}, nil)
	var r struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(result, &r); err != nil || r.SessionID == "" {
		c.fail("session/new answers %s (%v)", result, err)
	}
	c.session = r.SessionID
}

// prompt runs a turn and returns its stop reason.
func (c *client) prompt(text string, each func(line []byte)) string {
	c.t.Helper()
	result := c.request("session/prompt", map[string]any{
		"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": text}},
	}, each)
	var r struct {
		StopReason string `json:"stopReason"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		c.fail("session/prompt answers %s (%v)", result, err)
	}
	return r.StopReason
}

// finish runs a turn that must end in order.
func (c *client) finish(text string, each func(line []byte)) {
	c.t.Helper()
	if reason := c.prompt(text, each); reason != "end_turn" {
		c.fail("the turn ended with %q", reason)
	}
}

// chunkText is the text of an agent_message_chunk; empty for other updates.
func chunkText(line []byte) string {
	var m struct {
		Params struct {
			Update struct {
				Kind    string          `json:"sessionUpdate"`
				Content json.RawMessage `json:"content"`
			} `json:"update"`
		} `json:"params"`
	}
	var content struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(line, &m) != nil || m.Params.Update.Kind != "agent_message_chunk" ||
		json.Unmarshal(m.Params.Update.Content, &content) != nil {
		return ""
	}
	return content.Text
}
