//go:build unix

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
)

// timeLimit bounds an attempt; those that try often get more.
const timeLimit = 30 * time.Second

// searchPath is where attempts find programs.
const searchPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// maxSaid bounds what is kept of what an attempt prints, in bytes.
const maxSaid = 1 << 20

// carryOut runs an attempt and returns what it said.
func (r *run) carryOut(ctx context.Context, c Case, f Facts, limit time.Duration) ([]byte, error) {
	args, env, err := r.command(c, f)
	if err != nil {
		return nil, err
	}
	if f.Outside {
		return r.outside(ctx, args, f.Dir, env, limit)
	}
	return r.inside(ctx, args, f.Dir, env, limit)
}

// tag is in the environment of everything that an attempt starts.
func tag(f Facts) string { return "GANDER_PROBE_TAG=" + f.Mark[len("through-"):] }

// command is what to run for a case, and its environment.
func (r *run) command(c Case, f Facts) (args, env []string, err error) {
	facts, err := json.Marshal(f)
	if err != nil {
		return nil, nil, err
	}
	env = append(r.bait.environment(), tag(f), "OUT="+f.Out, "BESIDE="+f.Beside, fmt.Sprint("VICTIM=", f.Victim), "VICTIMNAME="+f.VictimName)
	if c.Do != "" {
		return []string{f.Executable, Verb, c.Do, string(facts)}, env, nil
	}
	shell := r.shell[1]
	if f.Outside {
		shell = r.shell[0]
	}
	return []string{shell, "-c", c.Sh, "probe", f.Mark}, env, nil
}

// startError means that an attempt could not be carried out.
type startError struct{ err error }

func (e *startError) Error() string { return "it could not be started: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// outside runs the control as any program would run it: with the caller's
// environment, in which a secret is, and an open file.
func (r *run) outside(ctx context.Context, args []string, dir string, env []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said, err := os.CreateTemp(r.dir("tmp"), "said")
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close(); _ = os.Remove(said.Name()) }()
	secret, err := os.Open(filepath.Join(r.bait.facts.Beside, "secret"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = secret.Close() }()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, said, said, []*os.File{secret}
	cmd.Env = append(slices.Concat([]string{"PATH=" + searchPath, "LC_ALL=C"}, env), "HOME="+r.bait.home(), "PROBE_API_KEY="+r.secret, "OLDPWD="+r.bait.facts.Beside)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	runErr := cmd.Run()
	text, err := os.ReadFile(said.Name())
	return text[:min(len(text), maxSaid)], errors.Join(err, ended(runErr))
}

// ended is an error that is worth telling: exit codes are not.
func ended(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return nil
	}
	return err
}

// inside runs a command in the sandbox, kills what it leaves, and returns what it said.
func (r *run) inside(ctx context.Context, args []string, dir string, env []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info := r.sb.Info()
	all := append(info.Environment([]string{"PATH=" + searchPath, "LC_ALL=C"}), env...)
	p, err := r.sb.Start(ctx, sandbox.Command{Args: args, Env: append(all, "HOME="+info.Home), Dir: dir, NullStdin: true})
	if err != nil {
		return nil, &startError{err}
	}
	var said said
	var readers sync.WaitGroup
	for _, stream := range []io.Reader{p.Stdout(), p.Stderr()} {
		readers.Go(func() { _, _ = io.Copy(&said, stream) })
	}
	_, err = p.Wait(ctx)
	whole, cancelKill := context.WithTimeout(context.WithoutCancel(ctx), timeLimit)
	defer cancelKill()
	switch killErr := p.Kill(whole); {
	case errors.Is(killErr, sandbox.ErrGone):
		r.awaitEnd(whole) // with which ends what is left of it, and not before
	case killErr != nil:
		err = errors.Join(err, fmt.Errorf("killing what is left of it: %w", killErr))
	}
	readers.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not done after %v", limit)
	}
	return said.text, err
}

// said collects the beginning of what both streams carry.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), maxSaid-len(s.text))]...)
	return len(b), nil
}
