package mcpcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/developer"
	"gander.dev/gander/sandbox"
)

// outputQueue is how many pieces of output wait for the door; more are left out:
// the end of a call has all of it.
const outputQueue = 1024

// outputSide takes what commands print to gander outside of the sandbox, which
// shows it in the editor. Nil takes nothing.
type outputSide struct {
	conn  net.Conn
	queue chan sandbox.ToolOutput
	wg    sync.WaitGroup
}

// openOutputSide connects to the door that the sandbox names, if it names one.
func openOutputSide(ctx context.Context, a *cli.App) (*outputSide, error) {
	addr := cli.Variable(a.Environ, sandbox.OutputVariable)
	if addr == "" {
		return nil, nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s, which %s names: %w; unset the variable outside of gander's sandboxes", addr, sandbox.OutputVariable, err)
	}
	return newOutputSide(conn), nil
}

func newOutputSide(conn net.Conn) *outputSide {
	s := &outputSide{conn: conn, queue: make(chan sandbox.ToolOutput, outputQueue)}
	s.wg.Go(s.send)
	return s
}

func (s *outputSide) send() {
	enc := json.NewEncoder(s.conn)
	enc.SetEscapeHTML(false) // each <, > and & would be six bytes, and a longer line ends the door
	for o := range s.queue {
		if enc.Encode(o) != nil {
			break
		}
	}
	for range s.queue { // nobody listens any more
	}
}

// output is for mcp.Options; nil without a door.
func (s *outputSide) output() func(string, json.RawMessage, developer.Output) {
	if s == nil {
		return nil
	}
	return func(tool string, arguments json.RawMessage, o developer.Output) {
		select {
		case s.queue <- sandbox.ToolOutput{Tool: tool, Arguments: arguments, Text: o.Text + "\n"}:
		default:
		}
	}
}

// close ends the sending. Nothing calls output any more.
func (s *outputSide) close() {
	if s == nil {
		return
	}
	close(s.queue)
	s.wg.Wait()
	_ = s.conn.Close()
}
