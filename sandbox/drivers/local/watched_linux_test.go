package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// watchedEnv makes the test binary a gander that something watches already: "nested", in a
// sandbox, or "filtered", by a listener of its own that permits namespaces.
const watchedEnv = "GANDER_TEST_WATCHED"

// madeWatched is what it tells of its sandboxes.
type madeWatched struct {
	Strict string // why there is none without permission
	Info   sandbox.Info
	Read   string // of a closed file, in the weaker one
}

// TestWatched: a tree of processes has one listener. Where there is one already no sandbox
// is made without permission, and with it one that says what is open.
func TestWatched(t *testing.T) {
	for _, how := range []string{"nested", "filtered"} {
		for whose, owner := range owners() {
			t.Run(how+"/"+whose, func(t *testing.T) {
				made := makeWatched(t, how, owner)
				reason := "another supervisor already watches this process"
				if how == "nested" {
					reason = "does not permit user namespaces" // which is seen first
				}
				if !strings.Contains(made.Strict, reason) || !strings.Contains(made.Strict, "--allow-weaker") {
					t.Errorf("without permission it says %q", made.Strict)
				}
				weaker, warnings := strings.Join(made.Info.Weaker, "; "), strings.Join(made.Info.Warnings, " ")
				if !strings.Contains(weaker, "closed files are open") || !strings.Contains(warnings, "another supervisor already watches this process") {
					t.Errorf("the weaker one says %q and warns %q", weaker, warnings)
				}
				if isolated := how == "filtered"; made.Info.Isolated != isolated || strings.Contains(weaker, "network") == isolated {
					t.Errorf("it is isolated: %v, and lacks %q", made.Info.Isolated, weaker)
				}
				if strings.Contains(warnings, "level=DEBUG") {
					t.Errorf("the supervisor's log is in a warning: %q", warnings)
				}
				if want := (sandbox.Enforcement{Closed: sandbox.Open, Protected: sandbox.Open}); made.Info.Enforcement != want || strings.Contains(warnings, "all the same") {
					t.Errorf("it keeps rules by %+v and warns %q", made.Info.Enforcement, warnings)
				}
				if made.Read != "secret" {
					t.Errorf("of a closed file, which is said to be open, is read %q", made.Read)
				}
			})
		}
	}
}

func makeWatched(t *testing.T, how string, owner int) (made madeWatched) {
	t.Helper()
	spec := sandboxtest.Spec(t, owner)
	var out []byte
	if how == "nested" {
		sb := sandboxtest.Create(t, newLocal(t), spec)
		p := sandboxtest.StartCommand(t, sb, sandbox.Command{
			Args: []string{sb.Info().Executable}, Env: sandboxtest.Env(watchedEnv+"="+how, "DIR="+spec.WorkingDir, "HOME="+sb.Info().Home),
		})
		out, _ = io.ReadAll(p.Stdout())
	} else {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = sandboxtest.Env(watchedEnv+"="+how, "DIR="+spec.WorkingDir, "HOME="+spec.Home)
		cmd.Stderr = t.Output()
		out, _ = cmd.Output()
	}
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatalf("it says %q: %v", out, err)
	}
	return made
}

// beWatched is the gander that something watches.
func beWatched() int {
	made, err := madeWatched{}, error(nil)
	if os.Getenv(watchedEnv) == "filtered" {
		err = listen()
	}
	own := filepath.Join(os.Getenv("HOME"), "own")
	err = errors.Join(err, os.WriteFile(own, []byte("closed\n"), 0o644))
	ctx, d := context.Background(), local.New(local.Options{})
	spec := sandbox.Spec{ID: "watched", WorkingDir: os.Getenv("DIR"), Home: os.Getenv("HOME"), Rules: &sandbox.Rules{Own: own}}
	if _, strict := d.Create(ctx, spec); strict != nil {
		made.Strict = strict.Error()
	}
	spec.Rules.Optional = true
	sb, weaker := d.Create(ctx, spec)
	if err = errors.Join(err, weaker); err == nil {
		made.Info = sb.Info()
		var p sandbox.Process
		if p, err = sb.Start(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", "printf secret > closed && cat closed"}}); err == nil {
			read, _ := io.ReadAll(p.Stdout())
			made.Read = string(read)
		}
		err = errors.Join(err, sb.Close())
	}
	if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(made)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// listen gives all threads of this process a filter with a listener, as some container
// managers do: it asks nobody anything.
func listen() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	allow := unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}
	const andThreads, newListener, elseESRCH = 1, 1 << 3, 1 << 4
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, andThreads|newListener|elseESRCH,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: 1, Filter: &allow})))
	if e != 0 {
		return e
	}
	return nil
}
