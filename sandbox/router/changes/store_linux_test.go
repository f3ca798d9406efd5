package changes_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gander.dev/gander/sandbox/router/changes"
)

// objects is the path of the file with what files were.
func (y *yard) objects() string {
	y.Helper()
	found, err := filepath.Glob(filepath.Join(y.store, "*", "objects"))
	y.must(err)
	if len(found) != 1 {
		y.Fatalf("the store has %q", found)
	}
	return found[0]
}

// What is damaged is never put back, and what a crash cut off harms nobody.
func TestADamagedStore(t *testing.T) {
	y := newYard(t)
	y.write("a", "one")
	y.turn(func() { y.write("a", "two") })
	y.must(y.tree.Close())
	data, err := os.ReadFile(y.objects())
	y.must(err)
	y.must(os.WriteFile(y.objects(), bytes.Replace(data, []byte("one"), []byte("0ne"), 1), 0o600))
	y.open()
	if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the undo says %v", err)
	}
	if got := y.read("a"); got != "two" {
		t.Errorf("it says %q", got)
	}

	y.must(y.tree.Close())
	y.must(os.WriteFile(y.objects(), append(data, "gsn1 and then the machine stopped"...), 0o600))
	y.open()
	y.turn(func() { y.write("b", "new") })
	y.reopen()
	for _, want := range []string{"(nothing)", "(nothing)"} {
		_, err := y.undo()
		y.must(err)
		if got := y.read("b"); got != want {
			t.Errorf("b says %q", got)
		}
	}
	if got := y.read("a"); got != "one" {
		t.Errorf("a says %q", got)
	}
}

// What is kept stays within its bounds, the newest of it, and is private.
func TestTheStoreIsBounded(t *testing.T) {
	y := newYard(t)
	y.must(y.tree.Close())
	const most = 200 << 10
	y.open(func(o *changes.Options) { o.MaxStore = most })
	changes.TrustClock(y.tree) // so that only what is known to be missing is read again
	noise := make([]byte, 20<<10)
	for i := range 60 {
		for j := range noise {
			noise[j] = byte((i*7919 + j*j*31 + j>>3) >> (j % 5))
		}
		y.turn(func() { y.write("a", string(noise[i:])) })
	}
	info, err := os.Stat(y.objects())
	y.must(err)
	if info.Size() > most || info.Mode().Perm() != 0o600 {
		t.Errorf("it has %d bytes, mode %v", info.Size(), info.Mode())
	}
	dir, err := os.Stat(filepath.Dir(y.objects()))
	y.must(err)
	if dir.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v", dir.Mode())
	}
	turns, err := y.tree.Session("session")
	y.must(err)
	if len(turns) == 0 || len(turns) == 60 || turns[0].ID != "turn-0060" {
		t.Errorf("%d turns are kept", len(turns))
	}
	before := y.read("a")
	if u, err := y.undo(); err != nil || len(u.Restored) != 1 || y.read("a") == before {
		t.Errorf("the last turn cannot be undone: %v, %+v", err, u)
	}
}

func TestOldTurnsGo(t *testing.T) {
	y := newYard(t)
	y.write("a", "one")
	y.turn(func() { y.write("a", "two") })
	old := time.Now().Add(-40 * 24 * time.Hour)
	turns, err := filepath.Glob(filepath.Join(y.store, "*", "turns", "*.json"))
	y.must(err)
	y.must(os.Chtimes(turns[0], old, old))
	y.turn(func() { y.write("a", "three") })
	if ids, err := y.tree.Turns(); err != nil || len(ids) != 1 || ids[0] != "turn-0002" {
		t.Errorf("kept are %q, %v", ids, err)
	}
}

// Several processes keep what files were at the same place; here several Trees do.
func TestManyTreesOfAProject(t *testing.T) {
	y := newYard(t)
	const trees, turns = 4, 8
	var wg sync.WaitGroup
	for i := range trees {
		wg.Go(func() {
			tree, err := changes.Open(changes.Options{Root: y.dir, Dir: y.store, MaxStore: 64 << 10, Time: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			defer tree.Close()
			name := y.path(fmt.Sprintf("f%d", i))
			for n := range turns {
				before, err := tree.Begin(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				text := strings.Repeat(fmt.Sprintf("%d of %d\n", n, i), 200+n)
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Error(err)
				}
				turn, err := tree.End(context.Background(), before, fmt.Sprint(i), fmt.Sprintf("%03d-%d", n, i))
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.Contains(said(turn), filepath.Base(name)) {
					t.Errorf("turn %d of %d is without its file: %s", n, i, said(turn))
				}
			}
		})
	}
	wg.Wait()
	y.reopen()
	list, err := y.tree.Session("")
	y.must(err)
	if len(list) != trees*turns {
		t.Errorf("%d turns are kept, want %d", len(list), trees*turns)
	}
	for _, turn := range list {
		for _, c := range turn.Changes { // the files of the others may have been read while they were written
			if _, _, ok := y.tree.Texts(c); !ok && string(c.Path) == "f"+turn.Session {
				t.Errorf("of the turn %s, %s is not kept", turn.ID, c.String())
			}
		}
	}
}

// What turns did is bounded, too, in what it takes on disk: the newest of it stays.
func TestTheTurnsAreBounded(t *testing.T) {
	y := newYard(t)
	const most = 100 << 10
	changes.LimitTurns(y.tree, most)
	for i := range 10 {
		y.turn(func() {
			for f := range 100 {
				y.write(fmt.Sprintf("%s-%d-%d", strings.Repeat("n", 200), i, f), "x")
			}
		})
	}
	ids, err := y.tree.Turns()
	y.must(err)
	var size int64
	turns, err := filepath.Glob(filepath.Join(y.store, "*", "turns", "*.json"))
	y.must(err)
	for _, turn := range turns {
		info, err := os.Stat(turn)
		y.must(err)
		size += info.Size()
	}
	if len(ids) < 2 || ids[0] != "turn-0010" || size > most {
		t.Errorf("kept are %q, in %d bytes", ids, size)
	}
}

// A turn is not kept with more bytes of paths than people have.
func TestPathsOfATurnAreBounded(t *testing.T) {
	y := newYard(t)
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 15)
	const files = 2000
	turn := y.turn(func() {
		for i := range files {
			y.write(fmt.Sprintf("%sf%d", deep, i), "x")
		}
	})
	if n := len(turn.Changes); n < 1000 || n > 1500 || n+turn.More != files+15 {
		t.Errorf("%d changes are kept, %d are not", n, turn.More)
	}
}
