package router

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// The values of the config option "tools".
const (
	ToolsNative    = "native"    // the agent's own
	ToolsDeveloper = "developer" // those of gander mcp developer, inside the sandbox
)

// outputDoor is the name of the door to which the developer server tells what its
// tools print while they run.
const outputDoor = "output"

// filesDoor is the name of the door through which the developer server reads and
// writes what the editor has open.
const filesDoor = "files"

const (
	// maxOutputLine bounds a line of the output door, in bytes.
	maxOutputLine = 256 << 10
	// maxOutputs bounds the door's connections: the developer server has one.
	maxOutputs = 16
)

// canUseDeveloper reports whether the session's agent can do without its own tools.
func (s *session) canUseDeveloper() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.agent.(sandbox.ToolUser)
	return ok
}

func (b *backend) usesDeveloper() bool {
	_, ok := b.agent.(sandbox.ToolUser)
	return ok && b.tools == ToolsDeveloper
}

// giveTools tells the agent of the developer server, when it is to be used.
func (b *backend) giveTools(p *sandbox.SessionParams) error {
	if !b.usesDeveloper() {
		return nil
	}
	info := b.sb.Info()
	if info.Executable == "" {
		return fmt.Errorf("the developer tools cannot be had in this %s sandbox: gander is not inside; choose tools: native", info.Driver)
	}
	p.Capabilities.FS = acp.FileSystemCapability{} // the server asks by its own door; goose, offered both, leaves the server out
	p.Developer = []string{info.Executable, "mcp", "developer"}
	if info.Isolated { // the sandbox says what may be changed
		p.Developer = append(p.Developer, "--root", "/")
	}
	p.OutputAddr, p.FilesAddr = info.Doors[outputDoor], info.Doors[filesDoor]
	return nil
}

// output is the host's side of the output door. What comes through it was written
// inside, by anybody: it is shown as the output of a tool and means nothing else.
type output struct {
	wg sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	open     int                    // connections
	receiver sandbox.OutputReceiver // nil until the agent is there, and when it needs none
}

// to passes what comes from now on to a conversation.
func (o *output) to(conv sandbox.AgentSession) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.receiver, _ = conv.(sandbox.OutputReceiver)
}

func (o *output) dial(context.Context) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open >= maxOutputs {
		return nil, errors.New("too many connections for output are open")
	}
	o.open++
	here, there := net.Pipe()
	o.wg.Go(func() { // ends with the connection
		defer func() {
			_ = here.Close()
			o.mu.Lock()
			o.open--
			o.mu.Unlock()
		}()
		lines := bufio.NewScanner(here)
		lines.Buffer(nil, maxOutputLine)
		for lines.Scan() {
			o.receive(lines.Bytes())
		}
	})
	return there, nil
}

func (o *output) receive(line []byte) {
	var out sandbox.ToolOutput
	o.mu.Lock()
	to := o.receiver
	o.mu.Unlock()
	if to != nil && json.Unmarshal(line, &out) == nil {
		to.ToolOutput(out)
	}
}
