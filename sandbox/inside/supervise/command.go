package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/hashicorp/yamux"

	"gander.dev/gander/sandbox"
)

// command is S's record of a process that the client has numbered. It exists
// from the first stream or request that names it until nothing of it is left.
type command struct {
	id      uint64
	stdio   chan *yamux.Stream // one value each
	stderr  chan *yamux.Stream
	begin   sync.Once
	started chan struct{} // closed when the start has been tried
	tree    tree          // set before that, nil when it failed
}

var errNoProcess = errors.New("no such process; it has ended")

// acceptStreams hands the process streams to their commands.
func (c *client) acceptStreams() {
	for {
		stream, err := c.session.AcceptStream()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.acceptStream(stream) })
	}
}

func (c *client) acceptStream(stream *yamux.Stream) {
	hd, err := readHeader(stream)
	if err != nil {
		_ = stream.Close()
		return
	}
	if hd.Stream == portStream {
		c.servePort(stream, hd.Port)
		return
	}
	var slot chan *yamux.Stream
	switch cmd := c.command(hd.Process); hd.Stream {
	case "stdio":
		slot = cmd.stdio
	case "stderr":
		slot = cmd.stderr
	}
	select {
	case slot <- stream:
	default:
		c.log.Warn("a stream that nobody expects", "stream", hd.Stream, "process", hd.Process)
		_ = stream.Close()
	}
}

// command finds the record of a process or makes it.
func (c *client) command(id uint64) *command {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.commands[id]
	if cmd == nil {
		cmd = &command{
			id: id, stdio: make(chan *yamux.Stream, 1), stderr: make(chan *yamux.Stream, 1),
			started: make(chan struct{}),
		}
		c.commands[id] = cmd
	}
	return cmd
}

func (c *client) drop(cmd *command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.commands, cmd.id)
}

func (c *client) start(p startParams) (r startResult, err error) {
	cmd := c.command(p.Process)
	err = fmt.Errorf("process %d was started before", p.Process)
	cmd.begin.Do(func() {
		defer close(cmd.started)
		err = c.startCommand(cmd, p)
	})
	if err != nil {
		return r, err
	}
	return startResult{PID: cmd.tree.pid()}, nil
}

func (c *client) startCommand(cmd *command, p startParams) error {
	if p.HandedOver {
		return c.startHanded(cmd, p)
	}
	stdio, stderr, err := c.streams(cmd)
	if err != nil {
		return err
	}
	t, pipes, err := c.launch(p)
	if err != nil {
		_ = stdio.Close()
		_ = stderr.Close()
		c.drop(cmd)
		return err
	}
	cmd.tree = t
	c.wg.Go(func() { c.follow(cmd, t, c.limitTime(cmd, p, stderr)) })
	if pipes.stdin != nil {
		c.wg.Go(func() { c.pumpIn(cmd, stdio, pipes.stdin) })
	}
	c.wg.Go(func() { c.pumpOut(stdio, pipes.stdout) })
	c.wg.Go(func() { c.pumpOut(stderr, pipes.stderr) })
	return nil
}

// startHanded starts a command whose standard streams the client has handed over.
func (c *client) startHanded(cmd *command, p startParams) error {
	t, err := c.launchHanded(p)
	if err != nil {
		c.drop(cmd)
		return err
	}
	cmd.tree = t
	c.wg.Go(func() { c.follow(cmd, t, func() bool { return true }) })
	return nil
}

func (c *client) launchHanded(p startParams) (tree, error) {
	c.mu.Lock()
	from := c.handover
	c.mu.Unlock()
	if from == nil {
		return nil, errors.New("no files can be handed over on this connection")
	}
	files, err := from.take(p.Process)
	if err != nil {
		return nil, err
	}
	if p.NullStdin {
		null, err := os.Open(os.DevNull)
		if err != nil {
			closeFiles(files...)
			return nil, err
		}
		files = slices.Insert(files, 0, null)
	}
	defer closeFiles(files...)
	if len(files) != 3 {
		return nil, fmt.Errorf("%d files were handed over for process %d", len(files), p.Process)
	}
	return c.platform.start(c.placed(p), [3]*os.File(files))
}

// placed is p with the directory that it runs in.
func (c *client) placed(p startParams) startParams {
	if p.Dir == "" {
		c.mu.Lock()
		p.Dir = c.dir
		c.mu.Unlock()
	}
	return p
}

func (c *client) launch(p startParams) (tree, *pipes, error) {
	p = c.placed(p)
	if p.StdoutPath+p.StderrPath != "" && c.rights&maySetup == 0 {
		return nil, nil, errors.New("output to a path is not permitted on this connection")
	}
	pipes, child, err := newPipes(p)
	if err != nil {
		return nil, nil, fmt.Errorf("making pipes: %w", err)
	}
	t, err := c.platform.start(p, child)
	closeFiles(child[:]...)
	if err != nil {
		closeFiles(pipes.stdin, pipes.stdout, pipes.stderr)
		return nil, nil, err
	}
	return t, pipes, nil
}

// streams waits for the two streams, which were opened before the request was made.
func (c *client) streams(cmd *command) (stdio, stderr *yamux.Stream, err error) {
	for _, s := range []struct {
		slot chan *yamux.Stream
		to   **yamux.Stream
	}{{cmd.stdio, &stdio}, {cmd.stderr, &stderr}} {
		select {
		case *s.to = <-s.slot:
		case <-c.session.CloseChan():
			return nil, nil, sandbox.ErrGone
		}
	}
	return stdio, stderr, nil
}

// follow tells the client of the command's end, and of the end of all it started.
func (c *client) follow(cmd *command, t tree, done func() bool) {
	defer done()
	c.ctl.event("exit", exitParams{cmd.id, <-t.exited()})
	<-t.gone()
	c.ctl.event("gone", processParams{Process: cmd.id})
	c.drop(cmd)
}

// pumpIn feeds stdin. When nobody reads that any more the client is told, and
// what it has sent by then is dropped.
func (c *client) pumpIn(cmd *command, stream *yamux.Stream, stdin *os.File) {
	err := c.bufs.copy(stdin, stream)
	_ = stdin.Close()
	if err != nil {
		c.ctl.event("stdinClosed", processParams{Process: cmd.id})
		_, _ = io.Copy(io.Discard, stream)
	}
}

// pumpOut carries output until nobody holds its other end. A client that does
// not read holds up the command, and nothing else.
func (c *client) pumpOut(stream *yamux.Stream, out *os.File) {
	if out != nil {
		_ = c.bufs.copy(stream, out)
	}
	_ = stream.Close()
	_ = out.Close()
}

// find waits until a process has been started and returns its record.
func (c *client) find(id uint64) (*command, error) {
	c.mu.Lock()
	cmd := c.commands[id]
	c.mu.Unlock()
	if cmd == nil {
		return nil, errNoProcess
	}
	select {
	case <-cmd.started:
	case <-c.session.CloseChan():
		return nil, sandbox.ErrGone
	}
	if cmd.tree == nil {
		return nil, errNoProcess
	}
	return cmd, nil
}

func (c *client) signal(p processParams) (struct{}, error) {
	cmd, err := c.find(p.Process)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, cmd.tree.signal(p.Signal)
}

func (c *client) kill(p processParams) (struct{}, error) {
	cmd, err := c.find(p.Process)
	if errors.Is(err, errNoProcess) {
		return struct{}{}, nil
	}
	if err != nil {
		return struct{}{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), killDeadline)
	defer cancel()
	return struct{}{}, cmd.kill(ctx)
}

func (cmd *command) kill(ctx context.Context) error {
	select {
	case <-cmd.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cmd.tree == nil {
		return nil
	}
	return cmd.tree.kill(ctx)
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
