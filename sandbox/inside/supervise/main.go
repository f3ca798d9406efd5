package supervise

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"gander.dev/gander/sandbox"
)

// Main is the supervisor, and the processes that it starts from the same
// program. args are the program's arguments, the first of which is Verb. It
// speaks the protocol on stdin and stdout, logs on stderr, and returns the exit
// code when the stream has ended and nothing is left. It must be called first
// thing in main, on the main goroutine.
func Main(args []string) int {
	if len(args) == 0 || args[0] != Verb {
		fmt.Fprintln(os.Stderr, "supervise: not started as "+Verb)
		return 2
	}
	if len(args) > 1 {
		return runRole(args[1], args[2:])
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := newPlatform(log)
	if err != nil {
		log.Error("the supervisor could not start", "error", err)
		return 1
	}
	conn, err := transport()
	if err != nil {
		log.Error("the supervisor has no stream", "error", err)
		return 1
	}
	s := &supervisor{platform: p, log: log, marks: map[sandbox.Mark]snapshot{}}
	log.Debug("the host's stream has ended", "reason", s.serve(conn, ownerRights))
	return 0
}

// exitDeadline is how long an ending supervisor waits for what it killed; a
// process that hangs in the kernel does not keep it.
const exitDeadline = 5 * time.Second

// stdioConn is the byte stream on stdin and stdout.
type stdioConn struct{ in, out *os.File }

func (c stdioConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c stdioConn) Write(b []byte) (int, error) { return c.out.Write(b) }

func (c stdioConn) Close() error {
	err := c.in.Close()
	if c.out != c.in {
		_ = c.out.Close()
	}
	return err
}

var _ io.ReadWriteCloser = stdioConn{}
