// Package shell runs command lines for the developer's shell tool: with every
// process they start held, every byte they print accounted for, and nothing left
// when the [Runner] closes or dies.
//
// [New] makes a Runner, [Runner.Run] runs one command line to its end,
// [Runner.Start] runs one in the background as a [Job]. All methods are safe for
// concurrent use; commands do not wait for each other.
//
// # Processes
//
// Commands run below a supervisor (sandbox/inside/supervise) of the Runner's own, started
// with the first command: a child process that is the reaper of last resort of
// each command's descendants and dies with us, taking them along. That is so
// inside a sandbox too. The supervisor that is there already could start our
// commands, but then it would have to listen to the sandboxed side, and it is the
// one process that guards the sandbox; a PID namespace inside of it is mostly not
// to be had. Ours nests below it: if the agent kills ours from within, what runs
// falls to the outer one, and a cancelled turn there takes ours away, after which
// the next command gets a new one. Outside of a sandbox we make no namespaces either:
// they would hide the person's own processes from "ps" and "kill", and in a user
// namespace ssh and chown stop working. A command that kills all of its own
// supervisors at one instant is therefore only held in a sandbox.
//
// Where rules are kept (Options.KeepRules) there is such a supervisor for each directory, and
// it carries out for the commands whatever opens files (sandbox/inside/enforce).
//
// Nobody gains privileges by a command (sudo, file capabilities): who does could not
// be killed any more.
//
// # Output
//
// Both streams are merged by lines, in the order of their arrival. The end is kept
// in memory; when it is too much to show, all of it is in a file, whose middle is
// dropped, and marked, when a session's files exceed their limit. A byte is never
// lost without a note of it. Files live in a directory of the Runner's, which Close
// removes, or the next Runner when we were killed.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"gander.dev/gander/sandbox/drivers/local"
)

// Options configure a Runner. The zero value works, with an empty environment.
type Options struct {
	// Executable is the program that is its own supervisor (supervise.Main); empty
	// means the running one.
	Executable string
	// Env is the environment that commands inherit, usually the server's own. PATH,
	// SHELL and HOME are also looked up in it.
	Env []string
	// WorkingDir is where commands run that name no directory, absolute; empty means
	// the process's own.
	WorkingDir string
	// Shells are the programs to use, by path or name, the first that is there; without
	// any, Env's SHELL decides on Unix when models write for it, else it is bash or sh,
	// and on Windows pwsh, powershell or cmd.
	Shells []string
	// BashEnv is the value of BASH_ENV where the shell is bash; empty sets none. The
	// file need not exist.
	BashEnv string
	// KeepRules has the kernel keep .gooseignore for commands, and all that they start, as
	// [CanKeepRules] says that it can. The rules are those of the directory that a command
	// runs in.
	KeepRules bool
	// NeedRules refuses commands that KeepRules keeps no rules for: those that run in the root
	// of the file system.
	NeedRules bool
	// OwnRules is the path of the person's own .gooseignore; empty means none.
	OwnRules string
	// LoginPath asks the login shell for PATH, once, before the first command. It
	// has no meaning on Windows.
	LoginPath bool
	// SpoolDir is where the Runner makes its directory; empty means the system's
	// temporary directory.
	SpoolDir string
	// SpoolLimit bounds the files of one session together, in bytes; 0 means 1 GiB.
	SpoolLimit int64
	// Grace is how long processes have to end that are asked to; 0 means a second.
	Grace time.Duration
	// Drain is how long output is awaited after the shell has ended while something
	// still holds its streams; 0 means half a second.
	Drain time.Duration
	// Log takes starts, ends and failures, never commands or output; nil discards it.
	Log *slog.Logger
}

// The values of options that are 0.
const (
	defaultSpoolLimit = 1 << 30
	defaultGrace      = time.Second
	defaultDrain      = 500 * time.Millisecond
)

// ErrClosed is returned by a Runner that was closed.
var ErrClosed = errors.New("the shell is closed")

// Runner runs command lines.
type Runner struct {
	o     Options
	log   *slog.Logger
	shell Interpreter
	place place
	spool *spool
	path  loginPath

	// live ends when the Runner closes; commands end with it.
	live   context.Context
	cancel context.CancelCauseFunc
	// wg are calls and what runs, readers those who read its streams: they may have to
	// wait for the end of the supervisor.
	wg, readers sync.WaitGroup
	buffers     buffers

	// mu guards the fields below.
	mu     sync.Mutex
	closed bool
	jobs   []*Job // started as such, or left by a command
	lastID int
}

// New makes a Runner. It starts nothing; Close it.
func New(o Options) (*Runner, error) {
	o = o.withDefaults()
	dir, err := filepath.Abs(o.WorkingDir)
	if err != nil {
		return nil, fmt.Errorf("finding the shell's working directory: %w", err)
	}
	o.WorkingDir = dir
	sh, err := choose(o.Shells, o.Env)
	if err != nil {
		return nil, err
	}
	r := &Runner{o: o, log: o.Log, shell: sh, spool: newSpool(o.SpoolDir, o.SpoolLimit)}
	r.live, r.cancel = context.WithCancelCause(context.Background())
	r.place = place{
		driver: local.NewOff(local.Options{Executable: o.Executable, KeepRules: o.KeepRules, Log: o.Log}), log: o.Log,
		keep: o.KeepRules, need: o.NeedRules, own: o.OwnRules, rooms: map[string]*room{},
	}
	return r, nil
}

func (o Options) withDefaults() Options {
	if o.SpoolLimit == 0 {
		o.SpoolLimit = defaultSpoolLimit
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// KeepsRules reports whether the kernel keeps .gooseignore for commands.
func (r *Runner) KeepsRules() bool { return r.o.KeepRules }

// Interpreter is the shell that commands run in.
func (r *Runner) Interpreter() Interpreter { return r.shell }

// Close ends everything that runs, in order and then by force, and removes all
// files. It returns when nothing is left. It is safe to repeat.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.wg.Wait()
	err := r.place.close()
	r.readers.Wait()
	return errors.Join(err, r.spool.close())
}

// enter counts a command in; the caller leaves with r.wg.Done.
func (r *Runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.wg.Add(1)
	return nil
}

var _ io.Closer = (*Runner)(nil)
