package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/inside/supervise"
)

// Job is a command with everything it started.
type Job struct {
	runner  *Runner
	session string
	line    string
	process supervise.Process
	room    *room
	outputs *outputs
	began   time.Time
	capture *capture
	live    *live
	read    chan struct{} // closed when nothing holds its streams any more
	over    chan struct{} // closed when nothing is left of it

	// mu guards the fields below.
	mu     sync.Mutex
	id     string
	status sandbox.ExitStatus
	exited bool
}

// JobInfo describes a job at a moment.
type JobInfo struct {
	ID      string
	Line    string
	PID     int
	Began   time.Time
	Running bool // something of it lives
	// Exited says that the shell itself has ended, with Code.
	Exited bool
	Code   int
	Signal string
	// Members are what lives, the shell among it.
	Members []supervise.Member
}

// ErrNoJob is returned for an id that the session has no job of.
var ErrNoJob = errors.New("there is no such job")

// maxJobs bounds how many jobs of a Runner are remembered that have ended.
const maxJobs = 64

// Start starts a command in the background. It is ended when the Runner closes, or
// its Timeout is over. ctx bounds starting only; Output is not used.
func (r *Runner) Start(ctx context.Context, c Command) (*Job, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.wg.Done()
	c.Output = nil
	j, err := r.launch(ctx, c)
	if err != nil {
		return nil, err
	}
	j.capture.spool()
	r.adopt(j)
	if c.Timeout > 0 {
		r.wg.Go(func() { j.endAfter(c.Timeout) })
	}
	return j, nil
}

func (j *Job) endAfter(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		j.end()
	case <-j.over:
	}
}

// adopt lists a job and gives it an id. The oldest that have ended are forgotten.
func (r *Runner) adopt(j *Job) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID++
	id := "job-" + strconv.Itoa(r.lastID)
	j.mu.Lock()
	j.id = id
	j.mu.Unlock()
	r.jobs = append(r.jobs, j)
	done := 0
	for _, other := range r.jobs {
		if ended(other.over) {
			done++
		}
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(other *Job) bool {
		if done <= maxJobs || !ended(other.over) {
			return false
		}
		done--
		return true
	})
	return id
}

// Jobs lists the jobs of a session, the oldest first: what was started as such, and
// what commands left in the background.
func (r *Runner) Jobs(session string) (jobs []*Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.session == session {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Job finds a job of a session; ErrNoJob when it has none with this id.
func (r *Runner) Job(session, id string) (*Job, error) {
	for _, j := range r.Jobs(session) {
		if j.ID() == id {
			return j, nil
		}
	}
	return nil, fmt.Errorf("%q: %w; list them to see which there are", id, ErrNoJob)
}

// ID names the job within its Runner.
func (j *Job) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Info describes the job as it is now.
func (j *Job) Info(ctx context.Context) JobInfo {
	i := JobInfo{Line: j.line, PID: j.process.PID(), Began: j.began, Running: !ended(j.over)}
	if i.Running {
		i.Members = j.left(ctx)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	i.ID, i.Exited, i.Code, i.Signal = j.id, j.exited, j.status.Code, j.status.Signal
	return i
}

// Text is what the job has printed so far; the zero Limits are those of Command.
func (j *Job) Text(l Limits) Text {
	return j.capture.peek(Command{Limits: l}.limits(), !ended(j.over))
}

// Wait returns when nothing of the job is left, or with ctx's cause.
func (j *Job) Wait(ctx context.Context) error {
	select {
	case <-j.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill ends the job and everything it started, in order and then by force, and
// returns when nothing is left.
func (j *Job) Kill(ctx context.Context) error {
	if ended(j.over) {
		return nil
	}
	j.end()
	return j.Wait(ctx)
}

// Lines reads lines from to to, counted from 1, of what the job has printed, of
// which at most maxBytes bytes are shown. Fewer are given when there are no more.
func (j *Job) Lines(from, to int64, maxBytes int) (string, error) {
	t := j.Text(Limits{})
	if t.File == "" {
		return "", fmt.Errorf("reading the output of %s: %w", j.ID(), t.Fault)
	}
	f, err := os.Open(t.File)
	if err != nil {
		return "", fmt.Errorf("reading the output of %s: %w", j.ID(), err)
	}
	defer func() { _ = f.Close() }()
	return linesOf(f, from, to, maxBytes)
}

// linesOf cuts lines out of a text without holding more of it than is shown.
func linesOf(text io.Reader, from, to int64, maxBytes int) (string, error) {
	in := bufio.NewReaderSize(text, 64<<10)
	var shown []string
	var line []byte
	dropped := 0
	for number, size := int64(1), 0; number <= to && size < maxBytes; {
		piece, err := in.ReadSlice('\n')
		if number >= from {
			room := min(len(piece), max(0, maxBytes-len(line)))
			line = append(line, piece[:room]...)
			dropped += len(piece) - room
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("reading a file of output: %w", err)
		}
		if number >= from && len(piece) > 0 {
			shown = append(shown, cutLine(line, dropped, maxBytes-size))
			size += len(shown[len(shown)-1]) + 1
		}
		if err != nil {
			break
		}
		line, dropped = line[:0], 0
		number++
	}
	return strings.Join(shown, "\n"), nil
}

// cutLine renders a line of which some was dropped behind.
func cutLine(line []byte, dropped, limit int) string {
	text := valid(bytes.TrimSuffix(line, []byte{'\n'}))
	if end := before(text, limit); end < len(text) || dropped > 0 {
		end = min(end, len(text))
		return fmt.Sprintf("%s[%d bytes of this line are left out]", text[:end], len(text)-end+dropped)
	}
	return text
}

// end ends the command and everything it started.
func (j *Job) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.runner.live), j.runner.o.Grace+killTime)
	defer cancel()
	err := j.process.End(ctx, j.runner.o.Grace)
	if err == nil || errors.Is(err, sandbox.ErrGone) {
		return
	}
	j.runner.log.Error("a command's processes do not end", "pid", j.process.PID(), "error", err)
	if errors.Is(err, context.DeadlineExceeded) { // the supervisor itself was stopped
		j.runner.place.abandon(j.room)
	}
}

// killTime is how long killing may take; the supervisor gives up a little earlier.
const killTime = 12 * time.Second

// follow waits until nothing is left, and sees to that when the Runner closes.
func (j *Job) follow() {
	defer func() {
		close(j.over)
		j.runner.place.leave(j.room)
	}()
	defer j.capture.close()
	status, err := j.process.Wait(j.runner.live)
	if err == nil {
		j.mu.Lock()
		j.status, j.exited = status, true
		j.mu.Unlock()
	}
	select {
	case <-j.process.Gone():
	case <-j.runner.live.Done():
		j.end()
	}
	select {
	case <-j.read:
	case <-j.runner.live.Done(): // somebody else may hold the streams
		j.outputs.stop()
	}
}

// readAll reads what the command prints until nothing holds its streams.
func (j *Job) readAll() {
	buf := j.runner.buffers.get()
	defer j.runner.buffers.put(buf)
	j.outputs.readAll(*buf, j.capture.write, j.capture.end)
	close(j.read)
}

// buffers lends the memory that streams are read into; the zero value is ready.
type buffers struct{ pool sync.Pool }

// readSize is how much is read at once: the cost is per piece.
const readSize = 256 << 10

func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, readSize)
	return &buf
}

func (b *buffers) put(buf *[]byte) { b.pool.Put(buf) }
