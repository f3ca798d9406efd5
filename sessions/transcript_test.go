package sessions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sessions"
)

// numbered is an update that says who appended it as which.
func numbered(who string, n int) sessions.Record {
	return sessions.Record{Time: time.UnixMilli(1), Body: sessions.Update{
		Update: json.RawMessage(fmt.Sprintf(`{"who":%q,"n":%d,"fill":%q}`, who, n, strings.Repeat("x", n%300))),
	}}
}

// checkNumbers fails unless each appender's numbers are complete and in order,
// and returns how many there are of each.
func checkNumbers(t *testing.T, s *sessions.Store) map[string]int {
	t.Helper()
	next := map[string]int{}
	for _, r := range readAll(t, s) {
		u, ok := r.Body.(sessions.Update)
		if !ok {
			continue
		}
		var v struct {
			Who string
			N   int
		}
		if err := json.Unmarshal(u.Update, &v); err != nil {
			t.Fatal(err)
		}
		if v.N != next[v.Who] {
			t.Fatalf("%s: got number %d, want %d", v.Who, v.N, next[v.Who])
		}
		next[v.Who]++
	}
	return next
}

func TestAppendConcurrently(t *testing.T) {
	s := openStore(t, t.TempDir(), &sessions.Options{BufferBytes: 10_000}) // so that appenders wait
	tr := create(t, s)
	const appenders, each = 8, 2000
	var wg sync.WaitGroup
	for a := range appenders {
		wg.Go(func() {
			for i := range each {
				if err := tr.Append(numbered(strconv.Itoa(a), i)); err != nil {
					t.Error(err)
					return
				}
				if i%500 == 0 {
					if err := tr.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	for who, n := range checkNumbers(t, s) {
		if n != each {
			t.Errorf("%s: %d records, want %d", who, n, each)
		}
	}
}

func TestAppendKeepsNothing(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	raw := []byte(`{"a":"before"}`)
	if err := tr.Append(sessions.Record{Body: sessions.Update{Update: raw}}); err != nil {
		t.Fatal(err)
	}
	copy(raw, `{"a":"after!"}`)
	appendAll(t, tr)
	if got := string(readAll(t, s)[1].Body.(sessions.Update).Update); got != `{"a":"before"}` {
		t.Errorf("update = %s", got)
	}
}

// Without Sync a record is written soon all the same.
func TestWrittenWithoutSync(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	for len(readAll(t, s)) < 2 {
		if t.Context().Err() != nil {
			t.Fatal("not written")
		}
		time.Sleep(time.Millisecond) // polls the file; there is no event to wait for
	}
}

func TestHugeRecord(t *testing.T) {
	s := openStore(t, t.TempDir(), &sessions.Options{BufferBytes: 1000})
	tr := create(t, s)
	huge := strings.Repeat("é", 8<<20)
	appendAll(t, tr,
		sessions.Record{Body: sessions.Notice{Text: huge}},
		sessions.Record{Body: sessions.Notice{Text: "small"}})
	records := readAll(t, s)
	if len(records) != 3 || records[1].Body.(sessions.Notice).Text != huge {
		t.Errorf("%d records, or the huge one changed", len(records))
	}
}

func TestClosed(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "y"}}); !errors.Is(err, sessions.ErrClosed) {
		t.Errorf("Append after Close: %v, want ErrClosed", err)
	}
	if err := tr.Sync(t.Context()); err != nil {
		t.Errorf("Sync after Close: %v; everything is on disk", err)
	}
	if n := len(readAll(t, s)); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

// A record that cannot be encoded harms no other.
func TestBadRecord(t *testing.T) {
	s := openStore(t, t.TempDir(), nil)
	tr := create(t, s)
	for _, bad := range []sessions.Record{{}, {Body: sessions.ConfigChange{Value: json.RawMessage("{")}}} {
		if err := tr.Append(bad); err == nil {
			t.Errorf("Append(%+v) accepted it", bad)
		}
	}
	appendAll(t, tr,
		sessions.Record{Body: sessions.Update{Update: json.RawMessage("not\njson")}},
		sessions.Record{Body: sessions.Notice{Text: "x"}})
	records := readAll(t, s)
	if len(records) != 3 || string(records[1].Body.(sessions.Update).Update) != `"not\njson"` {
		t.Errorf("records = %+v", records)
	}
}

// A killed process leaves every record that it saw synced, and the session goes on.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	if err := create(t, s).Close(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for round := range 5 {
		who := strconv.Itoa(round)
		synced := runKilled(t, dir, who, 3+round)
		if n := checkNumbers(t, s)[who]; n <= synced {
			t.Fatalf("round %d: %d records, but %d was synced", round, n, synced)
		}
		total += synced
	}
	t.Logf("%d synced records survived", total)
}

// runKilled runs the helper until it has synced the given number of times, kills
// it and returns the last number it had synced.
func runKilled(t *testing.T, dir, who string, times int) int {
	t.Helper()
	cmd, out := startHelper(t, dir, who)
	last := -1
	for lines := bufio.NewScanner(out); times > 0 && lines.Scan(); times-- {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if last < 0 {
		t.Fatal("the helper synced nothing")
	}
	return last
}

func startHelper(t *testing.T, dir, who string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, string(id), who)
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// Two processes append to one session while this one appends too.
func TestSeveralProcesses(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr := create(t, s)
	var wg sync.WaitGroup
	for _, who := range []string{"a", "b"} {
		wg.Go(func() { runKilled(t, dir, who, 20) })
	}
	for i := range 5000 {
		if err := tr.Append(numbered("here", i)); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	got := checkNumbers(t, s)
	if got["a"] < 2000 || got["b"] < 2000 || got["here"] != 5000 {
		t.Errorf("records = %v", got)
	}
}

func TestSyncEndsWithContext(t *testing.T) {
	hold := make(chan struct{})
	s := openStore(t, t.TempDir(), &sessions.Options{Redact: func(line []byte) []byte {
		if strings.Contains(string(line), "slow") {
			<-hold // the disk hangs
		}
		return line
	}})
	tr := create(t, s)
	if err := tr.Append(sessions.Record{Body: sessions.Notice{Text: "slow"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync = %v, want the context's error", err)
	}
	close(hold)
	if err := tr.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRedact(t *testing.T) {
	redact := func(line []byte) []byte {
		for _, secret := range []string{"hunter22", "update", "/project"} {
			line = []byte(strings.ReplaceAll(string(line), secret, "[redacted]"))
		}
		if strings.Contains(string(line), "BREAK") {
			return []byte("{")
		}
		return line
	}
	dir := t.TempDir()
	s := openStore(t, dir, &sessions.Options{Redact: redact})
	tr := create(t, s)
	appendAll(t, tr,
		sessions.Record{Body: sessions.Notice{Text: "clean"}},
		sessions.Record{Body: sessions.Notice{Text: "it is hunter22"}},
		sessions.Record{ID: "r1", Body: sessions.Notice{Text: "BREAK"}},
		sessions.Record{ID: "update", TurnID: "t1", Body: sessions.Permission{Outcome: json.RawMessage(`{"x":"hunter22 update"}`)}},
		sessions.Record{Body: sessions.Notice{Text: "clean again"}})
	records := readAll(t, s)
	if h := records[0].Body.(sessions.Header); h.WorkingPath != "/project" {
		t.Errorf("header = %+v, want its path as it was", h)
	}
	if n := records[2].Body.(sessions.Notice); n.Text != "it is [redacted]" {
		t.Errorf("notice = %+v", n)
	}
	if n, ok := records[3].Body.(sessions.Notice); !ok || !strings.Contains(n.Text, "left out") || records[3].ID != "r1" {
		t.Errorf("broken record = %+v", records[3])
	}
	if p := records[4]; p.ID != "update" || string(p.Body.(sessions.Permission).Outcome) != `{"x":"[redacted] [redacted]"}` {
		t.Errorf("permission = %+v", p)
	}
	if n := records[5].Body.(sessions.Notice); n.Text != "clean again" {
		t.Errorf("notice = %+v", n)
	}
	data, err := os.ReadFile(filepath.Join(dir, "s-1.jsonl"))
	if err != nil || strings.Contains(string(data), "hunter22") {
		t.Errorf("the secret is in the file (%v)", err)
	}
}
