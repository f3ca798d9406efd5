package sessions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// chaosEnv makes the test binary a process that does everything at once to a
// store and says what was acknowledged, until it is killed.
const chaosEnv = "SESSIONS_TEST_CHAOS"

// chaosWriters write to the session they share, one more works on all sessions.
const chaosWriters = 4

// runChaos is that process. Each line that it prints is "session writer number":
// an entry that was acknowledged.
func runChaos(dir string, policy sessions.SyncPolicy) error {
	s, err := sessions.Open(dir, &sessions.Options{Sync: policy})
	if err != nil {
		return err
	}
	tr, err := s.Create(sessions.Header{SessionID: acp.SessionID(sessions.NewID()), AgentID: "goose", WorkingPath: dir})
	if err != nil {
		return err
	}
	failed := make(chan error, chaosWriters+1)
	var printing sync.Mutex
	ack := func(id acp.SessionID, who string, n int) error {
		printing.Lock()
		defer printing.Unlock()
		_, err := fmt.Printf("%s %s %d\n", id, who, n)
		return err
	}
	for w := range chaosWriters {
		go func() { // ends with the process
			who := strconv.Itoa(w)
			for n := 0; ; n++ {
				if err := errors.Join(tr.Commit(context.Background(), numbered(who, n)), ack(tr.ID(), who, n)); err != nil {
					failed <- err
				}
			}
		}()
	}
	go func() { failed <- chaosAtLarge(s, tr.ID(), ack) }()
	return <-failed
}

// chaosAtLarge makes, forks, renames, shortens, lists and deletes sessions.
func chaosAtLarge(s *sessions.Store, shared acp.SessionID, ack func(acp.SessionID, string, int) error) error {
	ctx := context.Background()
	for n := 0; ; n++ {
		fork := acp.SessionID(sessions.NewID())
		if _, err := s.Fork(ctx, shared, sessions.Header{SessionID: fork}); err != nil {
			return err
		}
		if err := errors.Join(s.Append(ctx, fork, numbered("fork", 0)), ack(fork, "fork", 0)); err != nil {
			return err
		}
		if _, err := s.SetTitle(ctx, shared, fmt.Sprint("title ", n), sessions.TitleByPerson); err != nil {
			return err
		}
		if _, err := s.Prune(ctx, fork, -1); err != nil {
			return err
		}
		if _, err := s.List(ctx, sessions.ListOptions{}); err != nil {
			return err
		}
		if n%3 == 2 {
			if err := errors.Join(ack(fork, "gone", 0), s.Delete(ctx, fork)); err != nil {
				return err
			}
		}
	}
}

// chaosProcess is a running one.
type chaosProcess struct {
	cmd   *exec.Cmd
	out   *os.File
	lines *bufio.Reader
	acked map[string]int  // the highest number of each session and writer
	gone  map[string]bool // sessions that may be deleted
}

func startChaos(t *testing.T, dir string, policy sessions.SyncPolicy) *chaosProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &chaosProcess{out: r, lines: bufio.NewReader(r), acked: map[string]int{}, gone: map[string]bool{}}
	p.cmd = exec.CommandContext(t.Context(), exe)
	p.cmd.Env = append(os.Environ(), chaosEnv+"="+strconv.Itoa(int(policy))+dir)
	p.cmd.Stdout, p.cmd.Stderr = w, os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if err := p.out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return p
}

// note reads an acknowledgement.
func (p *chaosProcess) note(t *testing.T) error {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		return err
	}
	var id, who string
	var n int
	if _, err := fmt.Sscanf(line, "%s %s %d", &id, &who, &n); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if who == "gone" {
		p.gone[id] = true
		return nil
	}
	p.acked[id+" "+who] = n
	return nil
}

// kill kills the process at a random point and reads what it had said.
func (p *chaosProcess) kill(t *testing.T) {
	t.Helper()
	for range 1 + rand.IntN(40) {
		if err := p.note(t); err != nil {
			t.Fatalf("waiting for an acknowledgement: %v", err)
		}
	}
	if rand.IntN(2) == 0 { // also between two of them
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	p.drain(t)
}

// drain reads what the process has said until it was stopped or killed.
func (p *chaosProcess) drain(t *testing.T) {
	t.Helper()
	for {
		err := p.note(t)
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// missing says what is wrong with a store: acknowledged entries that are not
// there, entries that are there twice, sessions that do not load.
func (p *chaosProcess) missing(t *testing.T, dir string) (problems []string) {
	t.Helper()
	s := openStore(t, dir, nil)
	page, err := s.List(t.Context(), sessions.ListOptions{})
	if err != nil {
		return []string{"the list: " + err.Error()}
	}
	seen := map[string]int{}
	for _, info := range page.Sessions {
		for _, err := range s.Replay(t.Context(), info.ID, 0) {
			if err != nil {
				problems = append(problems, fmt.Sprintf("session %s does not load: %v", info.ID, err))
			}
		}
		ids := map[string]bool{}
		for r := range s.Entries(t.Context(), info.ID) {
			if r.ID != "" && ids[r.ID] {
				problems = append(problems, fmt.Sprintf("session %s has record %s twice", info.ID, r.ID))
			}
			ids[r.ID] = true
			u, ok := r.Body.(sessions.Update)
			if !ok {
				continue
			}
			var v struct {
				Who string
				N   int
			}
			if err := json.Unmarshal(u.Update, &v); err != nil {
				problems = append(problems, err.Error())
				continue
			}
			key := string(info.ID) + " " + v.Who
			if v.N != seen[key] {
				problems = append(problems, fmt.Sprintf("%s: number %d behind %d others", key, v.N, seen[key]))
			}
			seen[key]++
		}
	}
	for key, n := range p.acked {
		if id, _, _ := strings.Cut(key, " "); seen[key] <= n && !p.gone[id] {
			problems = append(problems, fmt.Sprintf("%s: entry %d was acknowledged, but there are %d", key, n, seen[key]))
		}
	}
	return problems
}

// rounds is a number from the environment, for the long proofs.
func rounds(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Wherever a process is killed, every entry that it was told is kept is there, no
// entry is there twice, and every session loads and goes on.
func TestKilledAnywhere(t *testing.T) {
	n := rounds(t, "GANDER_STORE_KILLS", 5)
	total := 0
	var dir string
	for round := range n {
		if round%10 == 0 { // what earlier ones left is part of it
			dir = filepath.Join(t.TempDir(), "sessions")
		}
		p := startChaos(t, dir, sessions.SyncAlways)
		p.kill(t)
		_ = p.out.Close()
		for _, problem := range p.missing(t, dir) {
			t.Errorf("round %d: %s", round, problem)
		}
		if t.Failed() {
			return
		}
		for _, n := range p.acked {
			total += n + 1
		}
		sessionGoesOn(t, dir)
	}
	t.Logf("%d kills, %d acknowledged entries, all there", n, total)
}

// sessionGoesOn appends to the session that was used last.
func sessionGoesOn(t *testing.T, dir string) {
	t.Helper()
	s := openStore(t, dir, nil)
	page, err := s.List(t.Context(), sessions.ListOptions{Limit: 1})
	if err != nil || len(page.Sessions) != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	if err := s.Append(t.Context(), page.Sessions[0].ID, sessions.Record{Body: sessions.Notice{Text: "on"}}); err != nil {
		t.Fatal(err)
	}
}
