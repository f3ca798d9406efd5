package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
)

// maxLastWords bounds what is kept of a server's stderr, in bytes.
const maxLastWords = 2 << 10

// lastWords keeps the end of what is written to it.
type lastWords struct {
	// mu guards text.
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxLastWords; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(l.text), ""))
}

// run starts a server's program and returns its streams as a connection. done is
// called when nothing of the program is left, ended with how it ended unless the connection
// was closed before. The program begins in a directory of its
// own: many that start others (npx, uvx, python -m) look where they are first, and what
// is in the project the agent has written.
func (m *servers) run(ctx context.Context, v *server, done func(), ended func(how string)) (net.Conn, error) {
	if !m.s.isOutside(v.Command) {
		return nil, fmt.Errorf("%s is in a directory that the agent can write, or depends on where it is started; gander runs nothing of the project outside of the sandbox", confine.Printable(v.Command))
	}
	host, err := m.supervisor(ctx)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, kv := range m.s.r.opts.ServerEnv {
		if name, value, _ := strings.Cut(kv, "="); strings.EqualFold(name, "PATH") {
			kv = name + "=" + m.s.pathOutside(value)
		}
		env = append(env, kv)
	}
	for _, e := range v.Env {
		if strings.EqualFold(e.Name, "PATH") {
			e.Value = m.s.pathOutside(e.Value)
		}
		env = append(env, e.Name+"="+e.Value)
	}
	proc, err := host.Start(ctx, sandbox.Command{Args: append([]string{v.Command}, v.Args...), Env: env, Dir: filepath.Join(m.dir(), workDir)})
	if err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	words := new(lastWords)
	m.s.work.Go(func() { // the session's backend runs, so nobody waits for work yet
		defer done()
		m.carry(v, proc, here, words, ended)
	})
	return there, nil
}

// pathOutside is a PATH without what the agent can put programs into.
func (s *session) pathOutside(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) || !s.isOutside(dir) })
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// maxProgramLinks bounds the links that lead to a program, as the kernel does.
const maxProgramLinks = 40

// isOutside reports whether a program, or a directory of some, is in none of the
// session's directories, nor leads through them. A name without a directory is outside:
// it is looked for in PATH.
func (s *session) isOutside(path string) bool {
	if !strings.ContainsAny(path, `/`+string(filepath.Separator)) {
		return true
	}
	for range maxProgramLinks {
		if !filepath.IsAbs(path) || s.isWithin(filepath.Clean(path)) {
			return false
		}
		real := path // of what there is of it
		for _, err := os.Lstat(real); err != nil && real != filepath.Dir(real); _, err = os.Lstat(real) {
			real = filepath.Dir(real)
		}
		if s.isWithin(realPath(real)) {
			return false
		}
		target, err := os.Readlink(path)
		if err != nil {
			return true
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(realPath(filepath.Dir(path)), target)
		}
		path = target
	}
	return false
}

// isWithin reports whether a clean path is in one of the session's directories.
func (s *session) isWithin(path string) bool {
	for _, dir := range append([]string{s.cwd}, s.dirs...) {
		for _, as := range []string{dir, realPath(dir)} {
			if rel, err := filepath.Rel(as, path); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}

// writable are the arguments of a server's program that name files which the agent can
// write, or options with such.
func (s *session) writable(v *server) []string {
	var found []string
	for _, arg := range v.Args {
		_, value, _ := strings.Cut(arg, "=")
		for _, name := range []string{arg, value} {
			if info, err := os.Stat(name); filepath.IsAbs(name) && !s.isOutside(name) && err == nil && info.Mode().IsRegular() {
				found = append(found, confine.Printable(name))
			}
		}
	}
	return found
}

// lastWordsTime bounds how long what a program has said last is waited for, and how it ended.
const lastWordsTime = 2 * time.Second

// carry passes the streams on until one side ends, and ends the other. ended hears how the
// program ended, unless the agent has closed its end before.
func (m *servers) carry(v *server, proc sandbox.Process, conn net.Conn, words *lastWords, ended func(how string)) {
	var streams sync.WaitGroup
	var first sync.Once // which side ended first
	byAgent := false
	over, said, exited := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	streams.Go(func() {
		_, _ = io.Copy(io.MultiWriter(m.s.leaks.Stream(v.leak()), proc.Stdin()), conn)
		first.Do(func() { byAgent = true; close(over) })
		_ = proc.Stdin().Close()
	})
	streams.Go(func() {
		_, _ = io.Copy(words, proc.Stderr())
		close(said)
	})
	streams.Go(func() {
		_, _ = io.Copy(conn, proc.Stdout())
		first.Do(func() { close(over) })
		_ = conn.Close()
	})
	streams.Go(func() {
		status, err := proc.Wait(context.Background()) // ends with the supervisor at the latest
		exited <- exitWords(status, err)
		first.Do(func() { close(over) })
	})
	<-over
	if !byAgent && m.s.ctx.Err() == nil {
		late := time.After(lastWordsTime)
		how := "it has closed its output"
		select {
		case how = <-exited:
		case <-late:
		}
		select {
		case <-said:
		case <-late:
		}
		text := "said nothing"
		if last := words.String(); last != "" {
			text = "its last words: " + last
		}
		if m.s.ctx.Err() == nil {
			ended(fmt.Sprintf("has ended (%s; %s)", how, text))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingTime)
	defer cancel()
	if err := proc.Kill(ctx); err != nil {
		m.s.log.Debug("ending an MCP server", "server", v.Name, "err", err)
	}
	_ = conn.Close()
	streams.Wait()
}

// exitWords says how a program ended.
func exitWords(status sandbox.ExitStatus, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case status.Signal != "":
		return "signal " + status.Signal
	}
	return fmt.Sprintf("exit code %d", status.Code)
}
