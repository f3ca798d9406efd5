package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/natefinch/atomic"
	"github.com/spf13/cobra"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/dashboard"
	"gander.dev/gander/sandbox/unattended/controlplane/transcript"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// serveFlags are the flags of gander serve.
type serveFlags struct {
	listen string
	hosts  []string
	compat bool
}

const (
	tokenFile       = "serve.token" // in the home directory
	minToken        = 16
	serveHeaderTime = 10 * time.Second
	serveIdleTime   = 2 * time.Minute
	farewellTime    = 3 * time.Second // for answers that are under way
)

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "unattended runs in a browser: the control plane and its page",
		Long: `serve is where unattended runs are started, watched and steered: from its page, from
gander loop, from editors. It prints one line, its address with the token that a person
needs; the token is also in serve.token of gander's home, and stays the same.

Each run has a process of its own that holds its sandbox. It goes on when gander serve
ends, is taken up again by the next one, and loses nothing meanwhile. gander loop stop
ends a run; without a control plane gander sandbox stop does.
A snapshot that is being restored is finished before gander serve ends, within a minute.

Only this machine can connect, unless --listen says otherwise: then use a tunnel or a
proxy with TLS, and name it with --allow-host.`,
		Example: "  gander serve\n  gander serve --listen 127.0.0.1:0\n  gander serve --compat   # for clients of goku-in-a-box",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveLoops(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", usualListen, "the address to listen on; port 0 takes a free one")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "a further host[:port] by which browsers may name it (repeatable)")
	fl.BoolVar(&f.compat, "compat", false, "answer clients of the earlier system, which have no token, on its routes and from this machine only")
	return cmd
}

func (a *app) serveLoops(ctx context.Context, f serveFlags) error {
	if f.listen == "" { // which would be a free port of every address
		return usageError("--listen is empty; give an address, as in --listen %s", usualListen)
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return usageError("--listen %q is not a host and a port; write it as in --listen %s", f.listen, usualListen)
	}
	release, err := a.claimServe(ctx)
	if err != nil {
		return err
	}
	defer release()
	token, err := a.serveToken()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--listen %s: %w; take another port, as in --listen 127.0.0.1:3001", f.listen, err)}
	}
	defer func() { _ = listener.Close() }()
	w := a.wire()
	defer a.follow(ctx, w)()
	fl, err := a.newFleet(w)
	if err != nil {
		return err
	}
	defer fl.close()
	store, err := w.store()
	if err != nil {
		return err
	}
	transcripts := transcript.New(store, a.log)
	o := a.planeOptions(w, fl, f, listener.Addr().String(), token)
	o.Transcripts = transcripts
	plane, err := controlplane.New(o)
	if err != nil {
		return err
	}
	err = a.serveUntil(ctx, listener, plane, fl, token)
	return errors.Join(err, plane.Close(), transcripts.Close())
}

// planeOptions are what the control plane is made of.
func (a *app) planeOptions(w *wiring, fl *fleet, f serveFlags, address, token string) controlplane.Options {
	return controlplane.Options{
		Dir: filepath.Join(a.cfg.Home, "loop"), Fleet: fl, Log: a.log, Listen: address, AllowHosts: f.hosts, Token: token, Compat: f.compat,
		Private: []string{a.cfg.Home}, Summarize: w.summarizer(), Page: dashboard.Files(),
	}
}

// serveUntil answers requests until ctx ends.
func (a *app) serveUntil(ctx context.Context, listener net.Listener, plane *controlplane.Plane, fl *fleet, token string) error {
	address := listener.Addr().(*net.TCPAddr)
	serving := keeper.Serving{URL: "http://" + reachable(address), PID: os.Getpid(), StartedAt: time.Now().UTC()}
	if err := keeper.Announce(a.cfg.Home, serving); err != nil {
		return err
	}
	server := &http.Server{
		Handler: plane.Handler(), ReadHeaderTimeout: serveHeaderTime, IdleTimeout: serveIdleTime, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }() // ends with Shutdown or Close
	if !address.IP.IsLoopback() {
		fmt.Fprintf(a.err, "gander: warning: %s can be reached from other machines, without encryption; who has the token can run commands in sandboxes here\n", listener.Addr())
	}
	if _, err := fmt.Fprintf(a.out, "%s/#token=%s\n", serving.URL, token); err != nil {
		a.log.Warn("the address could not be printed", "err", err)
	}
	adopted := make(chan struct{})
	go func() { // ends with ctx
		defer close(adopted)
		if err := errors.Join(plane.Adopt(ctx), fl.deliver(ctx)); err != nil && ctx.Err() == nil {
			a.log.Error("not every run could be taken up again", "err", err)
		}
	}()
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("the control plane does not listen any more: %w", err)
	case <-ctx.Done():
	}
	farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTime)
	defer cancel()
	if server.Shutdown(farewell) != nil {
		_ = server.Close() // live streams do not end by themselves
	}
	<-adopted
	fl.close()
	a.sayWhatGoesOn()
	return err
}

// reachable is an address as processes of this machine reach it.
func reachable(a *net.TCPAddr) string {
	if a.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", a.Port)
	}
	return a.String()
}

// sayWhatGoesOn names the runs that live on without a control plane.
func (a *app) sayWhatGoesOn() {
	dirs, err := keeper.Runs(a.cfg.Home)
	if err != nil {
		return
	}
	var on []string
	for _, d := range dirs {
		if spec, err := d.Spec(); err == nil && spec.Desired != keeper.Stopped && d.Kept() {
			on = append(on, d.SandboxID())
		}
	}
	if len(on) > 0 {
		fmt.Fprintf(a.err, "gander: unattended runs go on: %s\ngander: the next gander serve takes them up again; to end one: gander sandbox stop %s\n", strings.Join(on, ", "), on[0])
	}
}

func (a *app) serveLock() *flock.Flock {
	return flock.New(filepath.Join(a.cfg.Home, "loop", "serve.lock"), flock.SetPermissions(0o600))
}

const (
	claimTime  = 2 * time.Second // somebody may look who has it, which takes a moment
	claimPause = 20 * time.Millisecond
)

// claimServe makes this process the control plane of the home.
func (a *app) claimServe(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(filepath.Join(a.cfg.Home, "loop"), 0o700); err != nil {
		return nil, fmt.Errorf("making a place for runs: %w; %s", err, homeAdvice)
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	lock := a.serveLock()
	mine, err := lock.TryLockContext(ctx, claimPause)
	switch {
	case mine:
		return func() { _ = lock.Unlock() }, nil
	case !errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("claiming the runs of %s: %w; %s", a.cfg.Home, err, homeAdvice)
	}
	other := "another process"
	if s, err := keeper.Served(a.cfg.Home); err == nil {
		other = fmt.Sprintf("process %d at %s", s.PID, s.URL)
	}
	return nil, fmt.Errorf("gander serve runs already for %s: %s; use that one, end it, or choose another home with --home", a.cfg.Home, other)
}

// serving reports whether a control plane of the home runs.
func (a *app) serving() bool {
	lock := a.serveLock()
	if _, err := os.Stat(lock.Path()); err != nil {
		return false
	}
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}

// serveToken is the person's token, made when there is none yet.
func (a *app) serveToken() (string, error) {
	file := filepath.Join(a.cfg.Home, tokenFile)
	raw, err := os.ReadFile(file)
	token := strings.TrimSpace(string(raw))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(token) < minToken:
		token = rand.Text()
		err = writePrivately(file, []byte(token+"\n"))
	case err == nil:
		err = os.Chmod(file, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("keeping the token of the control plane: %w; %s", err, homeAdvice)
	}
	a.secrets.learn([]string{token})
	return token, nil
}

// writePrivately replaces a file at one stroke by one that only this user can read.
func writePrivately(path string, content []byte) error {
	if err := atomic.WriteFile(path, bytes.NewReader(content)); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}
