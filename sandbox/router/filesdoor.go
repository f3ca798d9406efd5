package router

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"

	"gander.dev/gander/sandbox"
)

// dialFiles is the host's side of the files door. What comes through it was written
// inside, by anybody: it gets no further than the agent's own requests do.
func (b *backend) dialFiles(context.Context) (net.Conn, error) {
	select {
	case b.relay.doors <- struct{}{}:
	default:
		return nil, errors.New("too many connections for files are open")
	}
	here, there := net.Pipe()
	b.output.wg.Go(func() { // ends with the connection
		defer func() { _ = here.Close(); <-b.relay.doors }()
		lines := bufio.NewScanner(here)
		lines.Buffer(nil, 6*maxText+1<<10) // a text of control characters, as JSON
		answers := json.NewEncoder(here)
		for lines.Scan() {
			var req sandbox.FileRequest
			if json.Unmarshal(lines.Bytes(), &req) != nil || answers.Encode(b.serveFile(req)) != nil {
				return
			}
		}
	})
	return there, nil
}

// serveFile answers one request, while a turn runs.
func (b *backend) serveFile(req sandbox.FileRequest) (a sandbox.FileAnswer) {
	b.relay.mu.Lock()
	t := b.relay.turn
	b.relay.mu.Unlock()
	if t == nil {
		return sandbox.FileAnswer{NoBuffer: true}
	}
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	defer context.AfterFunc(b.ctx, stop)()
	var err error
	if req.Write {
		err = b.writeEditor(ctx, req.Path, req.Text)
	} else {
		a.Text, err = b.readEditor(ctx, req.Path)
	}
	if errors.Is(err, errNotEditors) {
		return sandbox.FileAnswer{NoBuffer: true}
	}
	if err != nil {
		return sandbox.FileAnswer{Error: errorText(err)}
	}
	return a
}
