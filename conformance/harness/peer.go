package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What is kept of a peer's words: enough for every check, and bounded.
const (
	maxLine   = 128 << 20
	maxStderr = 16 << 20
	maxNotes  = 1_000_000
	maxBad    = 1000
)

// MarkVariable carries a mark in the environment of whatever a peer starts.
const MarkVariable = "GANDER_CONFORMANCE_MARK"

// A Launch says how to start a peer.
type Launch struct {
	Command []string
	Dir     string
	Environ []string
	// Mark is added to the environment.
	Mark string
	// Patience bounds each write.
	Patience time.Duration
	// Hear, when set, gets every frame in order, on the goroutine that reads, before
	// anybody who waits for it. Request gets the requests of the peer instead of
	// the answer that nothing is offered.
	Hear, Request func(*Frame)
}

// A Peer is one running process of the command under test.
type Peer struct {
	// Mark is in its environment, PID is its process.
	Mark string
	PID  int
	// Gate is held by whoever wants the peer's stdout not to be read on.
	Gate sync.Mutex
	// Ended is closed when the process is reaped and its stdout read; Exit is how,
	// valid then.
	Ended chan struct{}
	Exit  error

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	launch Launch
	// sending keeps lines whole.
	sending sync.Mutex

	// mu guards what follows.
	mu      sync.Mutex
	over    bool // nobody answers any more
	lastID  int
	frames  int
	waiting map[string]*Request
	notes   []*Frame
	settled map[string]bool
	stray   []*Frame // responses that answer nothing
	twice   []*Frame // responses to what was answered already
	bad     []string // what was wrong with lines of stdout
	stderr  bytes.Buffer
}

// A Request waits for its response.
type Request struct {
	// ID is its id as JSON, Sent when it was registered.
	ID   string
	Peer *Peer
	Sent time.Time
	// Done is closed when Answer and Took are set, or the peer has ended without
	// an answer.
	Done   chan struct{}
	Answer *Frame
	Took   time.Duration
}

// Answered says whether nobody needs to wait any more.
func (r *Request) Answered() bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

// Start starts a peer in a process group of its own.
func Start(l Launch) (*Peer, error) {
	s := &Peer{Mark: l.Mark, launch: l, Ended: make(chan struct{}), waiting: map[string]*Request{}, settled: map[string]bool{}}
	s.cmd = exec.Command(program(l.Command[0]), l.Command[1:]...)
	s.cmd.Dir = l.Dir
	s.cmd.Env = append(append([]string{}, l.Environ...), MarkVariable+"="+l.Mark)
	OwnGroup(s.cmd)
	s.cmd.Stderr = (*stderr)(s)
	s.cmd.WaitDelay = time.Second // of stderr, when something still holds it
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if s.out, err = s.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		if wrong, ok := errors.AsType[*fs.PathError](err); ok {
			err = wrong.Err // without the path again
		}
		return nil, fmt.Errorf("%s cannot be started: %w; give a program that is there, with its arguments", l.Command[0], err)
	}
	s.PID = s.cmd.Process.Pid
	go s.listen()
	return s, nil
}

// program is a command as it is found from here, and not from the directory in
// which it will run.
func program(name string) string {
	found, err := exec.LookPath(name)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return name // starting it says what is wrong
	}
	return found
}

// listen reads stdout until it ends, and then reaps the process.
func (s *Peer) listen() {
	defer close(s.Ended)
	in := bufio.NewReaderSize(s.out, 64<<10)
	for {
		s.passGate()
		line, err := readLine(in)
		if len(line) > 0 {
			s.receive(line)
		}
		if err != nil {
			break
		}
	}
	s.Exit = s.cmd.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.waiting {
		close(r.Done)
	}
	clear(s.waiting)
	s.over = true
}

// passGate waits while the harness is not to read on.
func (s *Peer) passGate() {
	s.Gate.Lock()
	defer s.Gate.Unlock()
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

func (s *Peer) receive(line []byte) {
	f, err := ParseFrame(line)
	s.mu.Lock()
	if err != nil && len(s.bad) < maxBad {
		s.bad = append(s.bad, err.Error())
	}
	if f != nil {
		s.frames++
		f.N = s.frames
	}
	s.mu.Unlock()
	if f == nil {
		return
	}
	if s.launch.Hear != nil {
		s.launch.Hear(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.Method != "" && f.ID != nil && s.launch.Request != nil:
		s.launch.Request(f)
	case f.Method != "" && f.ID != nil:
		go s.refuse(f) // a request of the peer's: nothing was offered to it
	case f.Method != "":
		if len(s.notes) < maxNotes && s.launch.Hear == nil {
			s.notes = append(s.notes, f)
		}
	default:
		s.settle(f)
	}
}

// settle gives a response to its request. mu is held.
func (s *Peer) settle(f *Frame) {
	id, err := Canonical(f.ID)
	r := s.waiting[string(id)]
	if err != nil || r == nil {
		if err == nil && s.settled[string(id)] {
			s.twice = append(s.twice, f)
		}
		s.stray = append(s.stray, f)
		return
	}
	delete(s.waiting, string(id))
	s.settled[string(id)] = true
	r.Answer = f
	r.Took = time.Since(r.Sent)
	close(r.Done)
}

func (s *Peer) refuse(f *Frame) {
	_ = s.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"the client offers nothing"}}`, f.ID))
}

// stderr collects what a peer says there.
type stderr Peer

// Write implements io.Writer.
func (e *stderr) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stderr.Len() < maxStderr {
		e.stderr.Write(p)
	}
	return len(p), nil
}

// Complaints is what the peer has written to stderr.
func (s *Peer) Complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// Send writes a line as it is.
func (s *Peer) Send(line string) error { return s.Write(line + "\n") }

// Write gives up, on the peer too, when it does not read: nothing would be
// answered any more.
func (s *Peer) Write(text string) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if pipe, ok := s.in.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = pipe.SetWriteDeadline(time.Now().Add(s.launch.Patience))
	}
	_, err := io.WriteString(s.in, text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = s.cmd.Process.Kill()
	}
	return err
}

// NextID is a fresh id as JSON.
func (s *Peer) NextID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return strconv.Itoa(s.lastID)
}

// Expect registers a request that the caller sends itself.
func (s *Peer) Expect(id string) *Request {
	key, err := Canonical([]byte(id))
	if err != nil {
		key = []byte(id)
	}
	r := &Request{ID: id, Peer: s, Sent: time.Now(), Done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		close(r.Done)
		return r
	}
	s.waiting[string(key)] = r
	delete(s.settled, string(key))
	return r
}

// RequestLine is a request as it goes over the wire.
func RequestLine(id, method string, params any) string {
	line := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method}
	if params != nil {
		line["params"] = params
	}
	return Marshal(line)
}

// Marshal is a value as JSON on one line, with < and > as they are.
func Marshal(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf(`"%v"`, err) // a mistake in a check, which the peer will refuse
	}
	return strings.TrimRight(b.String(), "\n")
}

// Ask sends a request; an error of writing shows as a missing answer.
func (s *Peer) Ask(method string, params any) *Request {
	id := s.NextID()
	r := s.Expect(id)
	_ = s.Send(RequestLine(id, method, params))
	return r
}

// Tell sends a notification.
func (s *Peer) Tell(method string, params any) {
	line := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		line["params"] = params
	}
	_ = s.Send(Marshal(line))
}

// Notifications are those of a method after frame n.
func (s *Peer) Notifications(method string, after int) []*Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Frame
	for _, f := range s.notes {
		if f.Method == method && f.N > after {
			found = append(found, f)
		}
	}
	return found
}

// Seen is how many frames have come.
func (s *Peer) Seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// Alive says whether the process runs.
func (s *Peer) Alive() bool {
	select {
	case <-s.Ended:
		return false
	default:
		return true
	}
}

// CloseStdin closes the peer's stdin.
func (s *Peer) CloseStdin() { _ = s.in.Close() }

// WaitEnd waits until the process is gone.
func (s *Peer) WaitEnd(ctx context.Context, d time.Duration) bool {
	select {
	case <-s.Ended:
		return true
	case <-ctx.Done():
	case <-time.After(d):
	}
	return false
}

// Discard ends a peer that is not needed any more, the hard way if it must.
func (s *Peer) Discard() {
	s.CloseStdin()
	if !s.WaitEnd(context.Background(), min(3*time.Second, s.launch.Patience)) {
		KillGroup(s.cmd)
		_ = s.cmd.Process.Kill()
		_ = s.out.Close()
		s.WaitEnd(context.Background(), 3*time.Second)
	}
}

// Kill sends SIGKILL, Terminate SIGTERM.
func (s *Peer) Kill() error      { return s.cmd.Process.Kill() }
func (s *Peer) Terminate() error { return Terminate(s.cmd) }

// CloseStdout closes the harness's end of the peer's stdout.
func (s *Peer) CloseStdout() { _ = s.out.Close() }

// Bad is what was wrong with lines of stdout.
func (s *Peer) Bad() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bad)
}

// Twice are responses to what had been answered already, Stray all that answer
// nothing that was asked, those among them.
func (s *Peer) Twice() []*Frame { return s.copied(&s.twice) }
func (s *Peer) Stray() []*Frame { return s.copied(&s.stray) }

func (s *Peer) copied(frames *[]*Frame) []*Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(*frames)
}
