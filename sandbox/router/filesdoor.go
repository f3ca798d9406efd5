package router

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/doorway"
)

const (
	// maxFileLine bounds a request of the files door, in bytes. As JSON a text has every
	// line's end and quote twice; what is more is no text that people write.
	maxFileLine = 2*maxText + 64<<10
	// largeTexts is how many requests and answers of more than doorway.Free are held at a
	// time; others wait.
	largeTexts = 2
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
		for in := bufio.NewReader(here); b.nextFile(in, here) == nil; {
		}
	})
	return there, nil
}

// nextFile answers the next request. An error means that there is none.
func (b *backend) nextFile(in *bufio.Reader, out io.Writer) error {
	line := &oneLine{in: in}
	data, done, err := b.relay.texts.Read(b.ctx, io.LimitReader(line, maxFileLine))
	var a sandbox.FileAnswer
	var req sandbox.FileRequest
	switch {
	case err != nil:
	case len(data) == maxFileLine && !line.ended:
		data = nil
		_, err = io.Copy(io.Discard, line)
		a.Error = fmt.Sprintf("the request has more than the %d bytes that pass to the editor; write less at a time, or write the file by a command", maxFileLine)
	default:
		if err = json.Unmarshal(data, &req); err == nil {
			a = b.serveFile(req)
		}
	}
	done()
	if err != nil {
		return err
	}
	if len(a.Text) > doorway.Free {
		done, err = b.relay.texts.Take(b.ctx)
		defer done()
		if err != nil {
			return err
		}
	}
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false) // each <, > and & would be six bytes
	return answers.Encode(a)
}

// oneLine reads until the end of a line.
type oneLine struct {
	in    *bufio.Reader
	ended bool
}

// Read implements io.Reader.
func (l *oneLine) Read(p []byte) (int, error) {
	if l.ended {
		return 0, io.EOF
	}
	if _, err := l.in.Peek(1); err != nil {
		return 0, err
	}
	part, _ := l.in.Peek(min(l.in.Buffered(), len(p))) // there are so many
	if i := bytes.IndexByte(part, '\n'); i >= 0 {
		part, l.ended = part[:i+1], true
	}
	return l.in.Discard(copy(p, part))
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
