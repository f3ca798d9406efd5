package shell_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
)

func itoa(n int) string { return strconv.Itoa(n) }

// serverEnv makes the test binary a server that runs one command, for tests that
// kill the server.
const serverEnv = "GANDER_TEST_SERVER"

// serve runs the command in serverEnv until it is killed, with everything else of the
// environment passed on.
func serve() int {
	r, err := shell.New(shell.Options{Env: os.Environ(), WorkingDir: "/", SpoolDir: os.Getenv("TMPDIR")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := func(_, text string) { fmt.Println(text) }
	_, err = r.Run(context.Background(), shell.Command{Line: os.Getenv(serverEnv), Output: out})
	fmt.Fprintln(os.Stderr, "the command has ended:", err)
	return 1
}

// beatEnv makes the test binary a program that starts itself once more, which then
// writes to this file for ever.
const beatEnv = "GANDER_TEST_BEAT"

func beat(file string) int {
	const again = "again:"
	name, child := strings.CutPrefix(file, again)
	if !child {
		cmd := exec.CommandContext(context.Background(), os.Args[0])
		cmd.Env = append(os.Environ(), beatEnv+"="+again+file)
		_ = cmd.Run()
		return 0
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 1
		}
		_, _ = f.WriteString("x")
		_ = f.Close()
	}
}

// newMark is a variable of the environment that no other process has.
func newMark() string { return "GANDER_TEST_MARK=" + rand.Text() }

// marked lists the live processes whose environment has the mark.
func marked(mark string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if !bytes.Contains(append(environ(name), 0), append([]byte(mark), 0)) || ended(name) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(name))
		pids = append(pids, pid)
	}
	return pids
}

// environ is the environment of a process, by any of its threads: one that has
// ended has none.
func environ(dir string) []byte {
	threads, _ := filepath.Glob(dir + "/task/*")
	for _, thread := range threads {
		if env, err := os.ReadFile(thread + "/environ"); err == nil && len(env) > 0 {
			return env
		}
	}
	return nil
}

// ended says whether a process has ended; one whose first thread has ended has not.
func ended(dir string) bool {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return true
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return bytes.Equal(fields[0], []byte("Z")) && len(fields[17]) == 1 && fields[17][0] <= '1'
}

// eventually waits for what no event tells of.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}
