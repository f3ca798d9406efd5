package fleet

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// The log of a run that could not be started is gone when its error is read.
func TestKeepersLastWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "keeper.log")
	if got := lastWords(log); got != "" {
		t.Errorf("a keeper that said nothing: %q", got)
	}
	for text, want := range map[string]string{"{}\ngander: no room\n": ": no room", "gander: no sockets here\r\n": ": no sockets here", "\n": ""} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(log); got != want {
			t.Errorf("the last words of %q: %q, want %q", text, got, want)
		}
	}
}

// What a keeper cannot do now is no secret of the log: the person learns it.
func TestErrorsOfKeepers(t *testing.T) {
	for err, want := range map[error]error{
		keeper.ErrNoKeeper: controlplane.ErrNotRunning,
		keeper.ErrNoLoop:   controlplane.ErrNotRunning,
		keeper.ErrBusy:     controlplane.ErrUnavailable,
	} {
		if got := steered(err); !errors.Is(got, want) {
			t.Errorf("%v is %v", err, got)
		}
	}
}

// A keeper that ends before it is asked has failed, unless the run was to end: then it
// has done all there was to do, and the run does not run.
func TestKeeperEndsAtOnce(t *testing.T) {
	for _, test := range []struct {
		program string
		desired keeper.Desired
		failure string
	}{
		{"true", keeper.Stopped, ""},
		{"false", keeper.Stopped, "its keeper has ended at once"},
		{"true", keeper.Running, "its keeper has ended at once"},
	} {
		t.Run(test.program+" "+string(test.desired), func(t *testing.T) {
			exe, err := exec.LookPath(test.program)
			if err != nil {
				t.Fatal(err)
			}
			f := New(Options{Home: t.TempDir(), Program: exe, Log: slog.New(slog.DiscardHandler)})
			dir, err := keeper.RunDir(f.Home, "run1")
			if err == nil {
				err = dir.Write(keeper.Spec{RunID: "run1", Desired: test.desired}, "token")
			}
			if err != nil {
				t.Fatal(err)
			}
			err = f.launch(t.Context(), dir)
			if got := err == nil; got != (test.failure == "") || err != nil && !strings.Contains(err.Error(), test.failure) {
				t.Errorf("starting its keeper: %v, not %q", err, test.failure)
			}
			if test.failure != "" {
				return
			}
			if err := f.Stop(t.Context(), "run1"); !errors.Is(err, controlplane.ErrNotRunning) {
				t.Errorf("stopping it: %v", err)
			}
		})
	}
}

// Only a run that no keeper has is not running: one whose keeper lives is asked whatever
// is wrong with its directory, and is not taken for stopped when its keeper fails.
func TestStopAsksWhoLives(t *testing.T) {
	breakOff := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	for name, test := range map[string]struct {
		damaged, kept bool
		stop          http.HandlerFunc
		want          error
	}{
		"damaged":                   {true, true, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, nil},
		"damaged, and it fails":     {true, true, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no room", 500) }, controlplane.ErrUnavailable},
		"its answer breaks off":     {false, true, breakOff, controlplane.ErrUnavailable},
		"damaged, without a keeper": {true, false, nil, controlplane.ErrNotRunning},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp("", "fleet") // short, for the socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(home) })
			f := New(Options{Home: home, Program: "/nowhere", Log: slog.New(slog.DiscardHandler)})
			dir, err := keeper.RunDir(home, "run1")
			if err == nil {
				err = dir.Write(keeper.Spec{RunID: "run1", Desired: keeper.Running}, "token")
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.damaged {
				spec := filepath.Join(dir.Path, "run.json")
				if err := errors.Join(os.Remove(spec), os.Mkdir(spec, 0o700)); err != nil {
					t.Fatal(err)
				}
			}
			if test.kept {
				playKeeper(t, dir, test.stop)
			}
			if err := f.Stop(t.Context(), "run1"); !errors.Is(err, test.want) {
				t.Errorf("stopping it: %v, want %v", err, test.want)
			}
			if !f.ends(dir) {
				t.Error("its keeper is started again")
			}
		})
	}
}

// playKeeper holds the lock of a run and answers on its socket; stop answers a stop.
func playKeeper(t *testing.T, dir keeper.Dir, stop http.HandlerFunc) {
	t.Helper()
	lock := flock.New(filepath.Join(dir.Path, "keeper.lock"))
	if mine, err := lock.TryLock(); !mine {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	socket := filepath.Join(dir.Path, "keeper.sock")
	l, err := net.Listen("unix", socket)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir.Path, "keeper.addr"), []byte(socket), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	mux.HandleFunc("POST /stop", stop)
	s := httptest.NewUnstartedServer(mux)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// A run that could not be started is gone, and its log with it: the error has the log's last
// words. One that cannot go on stays, and its error names the log.
func TestErrorNamesALogThatIsThere(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "keeper")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\necho 'gander: no room' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := New(Options{Home: t.TempDir(), Program: exe, Log: slog.New(slog.DiscardHandler)})
	dir, err := keeper.RunDir(f.Home, "run1")
	if err == nil {
		err = dir.Write(keeper.Spec{RunID: "run1", Desired: keeper.Running}, "token")
	}
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir.Path, keeper.KeeperLog)
	err = f.revive(t.Context(), dir)
	if _, statErr := os.Stat(log); statErr != nil || err == nil || !strings.Contains(err.Error(), "see "+log) {
		t.Errorf("a run that cannot go on: %v; its log: %v", err, statErr)
	}
	err = f.first(t.Context(), dir)
	if _, statErr := os.Stat(log); !errors.Is(statErr, fs.ErrNotExist) {
		t.Errorf("the log of a run that could not be started: %v", statErr)
	}
	if err == nil || !strings.Contains(err.Error(), "no room") || strings.Contains(err.Error(), log) {
		t.Errorf("a run that could not be started: %v", err)
	}
}
