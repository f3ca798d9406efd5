//go:build !race

package sessions_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"

	_ "modernc.org/sqlite" // what durable appends are compared with
)

// patience is how many times slower than it should be something may be: tests run
// on machines that have other work.
const patience = 3

// makeSessions writes n small transcripts, as they are after a turn each.
func makeSessions(tb testing.TB, dir string, n int) {
	tb.Helper()
	at := time.UnixMilli(1795199788254)
	for i := range n {
		at = at.Add(time.Second)
		content := fmt.Sprintf(`{"type":"session","schemaVersion":1,"sessionId":"s-%d","sessionKey":"s-%d","agentId":"goose","createdAt":%q,"workspacePath":"/home/someone/projects/number-%d","workingPath":"/home/someone/projects/number-%d"}
{"type":"turn","id":"a-1","turnId":"t1","timestamp":%d,"event":"start"}
{"type":"message","id":"a-2","turnId":"t1","timestamp":%d,"role":"user","content":"Please make the tests of part %d pass"}
{"type":"agent","id":"a-3","timestamp":%d,"event":"started","agent":"goose","agentSessionId":"20261120_41"}
{"type":"update","id":"a-4","turnId":"t1","timestamp":%d,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}}
{"type":"turn","id":"a-5","turnId":"t1","timestamp":%d,"event":"end","stopReason":"end_turn"}
`, i, i, at.UTC().Format(time.RFC3339Nano), i%50, i%50, at.UnixMilli(), at.UnixMilli(), i, at.UnixMilli(), at.UnixMilli(), at.UnixMilli())
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s-%d.jsonl", i)), []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// Times here are of the processor, except where disks are compared. A process that
// begins lists 10,000 sessions from the index, all of them and as
// a client asks for them.
func TestListOfTenThousand(t *testing.T) {
	dir := t.TempDir()
	makeSessions(t, dir, 10_000)
	began := time.Now()
	list := func(o sessions.ListOptions, want int) time.Duration {
		t.Helper()
		best := time.Hour // of several: the machine has other work too
		for range 5 {
			s := openStore(t, dir, nil)
			began := processTime()
			page, err := s.List(t.Context(), o)
			if err != nil || len(page.Sessions) != want {
				t.Fatalf("%d sessions, %v", len(page.Sessions), err)
			}
			best = min(best, processTime()-began)
		}
		return best
	}
	all := list(sessions.ListOptions{}, 10_000) // the first time makes the index
	t.Logf("with making the index: %v", time.Since(began))
	page, filtered := list(sessions.ListOptions{Limit: 100}, 100), list(sessions.ListOptions{CWD: "/home/someone/projects/number-7"}, 200)
	t.Logf("10,000 sessions: all %v, the first 100 %v, of one directory %v", all, page, filtered)
	for name, took := range map[string]time.Duration{"all": all, "a page": page, "of a directory": filtered} {
		if took > patience*100*time.Millisecond {
			t.Errorf("%s: %v, want 100 ms at most", name, took)
		}
	}
}

func BenchmarkList(b *testing.B) {
	dir := b.TempDir()
	makeSessions(b, dir, 10_000)
	for b.Loop() {
		s, err := sessions.Open(dir, nil) // each time as a new process
		if err != nil {
			b.Fatal(err)
		}
		if page, err := s.List(b.Context(), sessions.ListOptions{}); err != nil || len(page.Sessions) != 10_000 {
			b.Fatal(err)
		}
	}
}

// A session of 100,000 entries is replayed in two seconds and little memory, and
// what is known of it takes no reading.
func TestHundredThousandEntries(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	tr := create(t, s)
	const entries = 100_000
	for i := range entries {
		if err := tr.Append(sessions.Record{TurnID: fmt.Sprint("t", i/100), Body: sessions.Update{Update: acp.MessageChunk(acp.AgentMessageChunk, fmt.Sprint("m", i/20), "some words of a reply ")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Info(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	best, most := time.Hour, uint64(0)
	for range 3 {
		s := openStore(t, dir, nil)
		began, n := processTime(), 0
		for _, err := range s.Replay(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%20_000 == 0 {
				most = max(most, heap())
			}
		}
		if n != entries {
			t.Fatalf("%d updates, want %d", n, entries)
		}
		best = min(best, processTime()-began)
	}
	before := processTime()
	if _, err := openStore(t, dir, nil).Info(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	info := processTime() - before
	t.Logf("replayed in %v with %d MiB in use at most; Info %v", best, most>>20, info)
	if best > patience*2*time.Second || most > 32<<20 || info > patience*50*time.Millisecond {
		t.Error("want 2 s, 32 MiB and 50 ms")
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 64 writers of one session share flushes: they are five times as fast as a flush
// for each entry, and at least as fast as SQLite with its log flushed at each commit.
func TestSharedFlushes(t *testing.T) {
	const writers, each = 64, 40
	line := bytes.Repeat([]byte("x"), 200)
	dir := t.TempDir()
	var shared, single, database []time.Duration
	for range 3 { // one after the other in turns, so that other work on the machine meets all
		shared = append(shared, commitShared(t, filepath.Join(dir, fmt.Sprint("shared", len(shared))), line, writers, each))
		single = append(single, commitSingly(t, filepath.Join(dir, fmt.Sprint("single", len(single))), line, writers*each/8)*8)
		database = append(database, commitSQLite(t, filepath.Join(dir, fmt.Sprint("db", len(database))), line, writers, each/8)*8)
	}
	t.Logf("%d entries: shared flushes %v; a flush each %v; SQLite %v", writers*each, shared, single, database)
	a, b, c := least(shared), least(single), least(database)
	t.Logf("%.1f times a flush each, %.1f times SQLite", float64(b)/float64(a), float64(c)/float64(a))
	if a*5 > b*patience || a > c*patience {
		t.Error("want 5 times a flush each, and SQLite's speed at least")
	}
}

func least(d []time.Duration) time.Duration {
	best := d[0]
	for _, x := range d {
		best = min(best, x)
	}
	return best
}

func commitShared(t *testing.T, dir string, line []byte, writers, each int) time.Duration {
	s := openStore(t, dir, nil)
	tr := create(t, s)
	began := time.Now()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := tr.Commit(t.Context(), sessions.Record{Body: sessions.Notice{Text: string(line)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	return took
}

// commitSingly appends to a file and flushes it for each entry.
func commitSingly(t *testing.T, file string, line []byte, n int) time.Duration {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	began := time.Now()
	for range n {
		if _, err := f.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

// commitSQLite inserts rows that are durable one by one.
func commitSQLite(t *testing.T, file string, line []byte, writers, each int) time.Duration {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // several would wait for each other with timers
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, "CREATE TABLE entries (id INTEGER PRIMARY KEY, line BLOB)"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, err := db.ExecContext(ctx, "INSERT INTO entries (line) VALUES (?)", line); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}
