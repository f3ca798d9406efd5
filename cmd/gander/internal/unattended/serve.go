// Package unattended holds gander serve and the commands about loops.
package unattended

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/dashboard"
	"gander.dev/gander/sandbox/unattended/controlplane/transcript"
	"gander.dev/gander/sandbox/unattended/fleet"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// serveFlags are the flags of gander serve.
type serveFlags struct {
	listen string
	hosts  []string
	compat bool
}

const (
	minToken        = 16
	serveHeaderTime = 10 * time.Second
	serveIdleTime   = 2 * time.Minute
	farewellTime    = 3 * time.Second // for answers that are under way
)

// ServeCommand returns the command gander serve.
func ServeCommand(a *cli.App) *cobra.Command {
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
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveLoops(cmd.Context(), a, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", cli.UsualListen, "the address to listen on; port 0 takes a free one")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "a further host[:port] by which browsers may name it (repeatable)")
	fl.BoolVar(&f.compat, "compat", false, "answer clients of the earlier system, which have no token, on its routes and from this machine only")
	return cmd
}

func serveLoops(ctx context.Context, a *cli.App, f serveFlags) error {
	if f.listen == "" { // which would be a free port of every address
		return cli.UsageError("--listen is empty; give an address, as in --listen %s", cli.UsualListen)
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return cli.UsageError("--listen %q is not a host and a port; write it as in --listen %s", f.listen, cli.UsualListen)
	}
	release, err := claimServe(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	token, err := serveToken(a)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("--listen %s: %w; take another port, as in --listen 127.0.0.1:3001", f.listen, err)}
	}
	defer func() { _ = listener.Close() }()
	w := wire.New(a)
	defer wire.Follow(ctx, a, w)()
	fl, err := newFleet(a, w)
	if err != nil {
		return err
	}
	defer fl.Close()
	store, err := w.Store()
	if err != nil {
		return err
	}
	transcripts := transcript.New(store, a.Log)
	o := planeOptions(a, w, fl, f, listener.Addr().String(), token)
	o.Transcripts = transcripts
	notices, err := w.Notices()
	if err != nil {
		return err
	}
	if notices != nil {
		defer notices.Close()
		o.Notify, o.PageURL = notices.Send, cmp.Or(a.Config.Notify.Page, "http://"+reachable(listener.Addr().(*net.TCPAddr)))
	}
	plane, err := controlplane.New(o)
	if err != nil {
		return err
	}
	err = serveUntil(ctx, a, listener, plane, fl, token)
	return errors.Join(err, plane.Close(), transcripts.Close())
}

// planeOptions are what the control plane is made of.
func planeOptions(a *cli.App, w *wire.Wiring, fl *fleet.Fleet, f serveFlags, address, token string) controlplane.Options {
	return controlplane.Options{
		Sandboxes: drivers.Isolating(),
		Dir:       filepath.Join(a.Config.Home, "loop"), Fleet: fl, Log: a.Log, Listen: address, AllowHosts: f.hosts, Token: token, Compat: f.compat,
		Private: []string{a.Config.Home}, Summarize: w.Summarizer(), Page: dashboard.Files(),
	}
}

// serveUntil answers requests until ctx ends.
func serveUntil(ctx context.Context, a *cli.App, listener net.Listener, plane *controlplane.Plane, fl *fleet.Fleet, token string) error {
	address := listener.Addr().(*net.TCPAddr)
	serving := keeper.Serving{URL: "http://" + reachable(address), PID: os.Getpid(), StartedAt: time.Now().UTC()}
	if err := keeper.Announce(a.Config.Home, serving); err != nil {
		return err
	}
	server := &http.Server{
		Handler: plane.Handler(), ReadHeaderTimeout: serveHeaderTime, IdleTimeout: serveIdleTime, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }() // ends with Shutdown or Close
	if !address.IP.IsLoopback() {
		fmt.Fprintf(a.Err, "gander: warning: %s can be reached from other machines, without encryption; who has the token can run commands in sandboxes here\n", listener.Addr())
	}
	if cli.IsTerminal(a.In) {
		fmt.Fprintln(a.Err, "gander: Ctrl-C ends the page and leaves the runs going; gander loop stop RUN ends one")
	}
	if _, err := fmt.Fprintf(a.Out, "%s/#token=%s\n", serving.URL, token); err != nil {
		a.Log.Warn("the address could not be printed", "err", err)
	}
	adopted := make(chan struct{})
	go func() { // ends with ctx
		defer close(adopted)
		if err := errors.Join(plane.Adopt(ctx), fl.Deliver(ctx)); err != nil && ctx.Err() == nil {
			a.Log.Error("not every run could be taken up again", "err", err)
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
	fl.Close()
	sayWhatGoesOn(a)
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
func sayWhatGoesOn(a *cli.App) {
	dirs, err := keeper.Runs(a.Config.Home)
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
		fmt.Fprintf(a.Err, "gander: unattended runs go on: %s\ngander: the next gander serve takes them up again; to end one: gander sandbox stop %s\n", strings.Join(on, ", "), on[0])
	}
}

const (
	claimTime  = 2 * time.Second // somebody may look who has it, which takes a moment
	claimPause = 20 * time.Millisecond
)

// claimServe makes this process the control plane of the home.
func claimServe(ctx context.Context, a *cli.App) (release func(), err error) {
	if err := os.MkdirAll(filepath.Join(a.Config.Home, "loop"), 0o700); err != nil {
		return nil, fmt.Errorf("making a place for runs: %w; %s", err, cli.HomeAdvice)
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	lock := wire.ServeLock(a)
	mine, err := lock.TryLockContext(ctx, claimPause)
	switch {
	case mine:
		return func() { _ = lock.Unlock() }, nil
	case !errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("claiming the runs of %s: %w; %s", a.Config.Home, err, cli.HomeAdvice)
	}
	other := "another process"
	if s, err := keeper.Served(a.Config.Home); err == nil {
		other = fmt.Sprintf("process %d at %s", s.PID, s.URL)
	}
	return nil, fmt.Errorf("gander serve runs already for %s: %s; use that one, end it, or choose another home with --home", a.Config.Home, other)
}

// serveToken is the person's token, made when there is none yet.
func serveToken(a *cli.App) (string, error) {
	file := filepath.Join(a.Config.Home, wire.TokenFile)
	raw, err := os.ReadFile(file)
	token := strings.TrimSpace(string(raw))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(token) < minToken:
		token = rand.Text()
		err = confine.WritePrivately(file, []byte(token+"\n"))
	case err == nil:
		err = os.Chmod(file, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("keeping the token of the control plane: %w; %s", err, cli.HomeAdvice)
	}
	a.Secrets.Learn([]string{token})
	return token, nil
}
