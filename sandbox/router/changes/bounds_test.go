package changes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// soon fails when something takes longer than what grows with its input alone.
func soon(t *testing.T, do func()) {
	t.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func bare() *Tree {
	return &Tree{log: slog.New(slog.DiscardHandler), store: &store{}, last: &manifest{}, mostInDir: maxInDir, mostPaths: maxPaths}
}

// numbered are n entries, named by their numbers from the first.
func numbered(first, n int) *listing {
	l := &listing{}
	for i := range n {
		l.entries = append(l.entries, entry{name: fmt.Sprintf("file-%06d", first+i), info: info{kind: kindSpecial}})
	}
	return l
}

// A directory whose order is another, as after its first file went, takes no time
// that grows with the square of its files.
func TestALargeDirectoryInAnotherOrder(t *testing.T) {
	const files = 150_000
	before, after := numbered(0, files), numbered(1, files)
	soon(t, func() {
		turn := bare().compare(t.Context(), &manifest{dirs: map[string]*listing{"": before}}, &manifest{dirs: map[string]*listing{"": after}})
		var said []string
		for _, c := range turn.Changes {
			said = append(said, c.String())
		}
		if want := []string{"deleted file-000000", fmt.Sprintf("created file-%06d (special)", files)}; !slices.Equal(said, want) {
			t.Errorf("it says %q", said)
		}
		closedSince(&manifest{dirs: map[string]*listing{"": before}}, &manifest{dirs: map[string]*listing{"": after}})
	})
}

// Many directories that cannot be read, beside many that can, take no time that
// grows with the product of both.
func TestManyDirectoriesThatCannotBeRead(t *testing.T) {
	const n = 40_000
	s := bare()
	s.last.dirs = map[string]*listing{}
	for i := range n {
		s.last.dirs[fmt.Sprintf("open/%06d", i)] = &listing{}
	}
	s.last.dirs["closed/000001/below"] = &listing{}
	soon(t, func() {
		scan := s.newScan(false)
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // there is no time
		scan.queue = nil
		for i := range n {
			scan.queue = append(scan.queue, fmt.Sprintf("closed/%06d", i))
		}
		found := scan.run(ctx)
		if len(found.dirs) != 1 || found.dirs["closed/000001/below"] == nil {
			t.Errorf("%d directories are as they were", len(found.dirs))
		}
		if !found.covers("closed/000007") || !found.covers("closed/000007/below/that") || found.covers("closed") || found.covers("open/000001") {
			t.Error("other directories were left out")
		}
		turn := s.compare(t.Context(), found, s.last)
		if len(turn.Changes) != 0 || len(turn.NotCompared) != 21 {
			t.Errorf("it says %d changes, and %q", len(turn.Changes), turn.NotCompared)
		}
	})
}

// Whether renamed files are still similar is looked at while there is time.
func TestSimilarFilesAreLookedForWhileThereIsTime(t *testing.T) {
	tree := bare()
	var err error
	if tree.store, err = openStore(t.TempDir(), 1<<20); err != nil {
		t.Fatal(err)
	}
	defer tree.store.Close()
	release, err := tree.store.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) *manifest {
		id := sha256.Sum256([]byte(text))
		tree.store.add(id, []byte(text), &buffers{})
		return &manifest{dirs: map[string]*listing{"": {entries: []entry{{name: name, read: true, sum: id, info: info{kind: kindFile, stamp: stamp{ino: 7, size: int64(len(text))}}}}}}}
	}
	before, after := file("a", "one\ntwo\nthree\n"), file("b", "one\ntwo\nfour\n")
	release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if turn := tree.compare(t.Context(), before, after); len(turn.Changes) != 1 || turn.Changes[0].Kind != Renamed {
		t.Errorf("found %v", turn.Changes)
	}
	if turn := tree.compare(over, before, after); len(turn.Changes) != 2 {
		t.Errorf("without time it found %v", turn.Changes)
	}
}

// Who waits for another gander and is told to stop does not say that there is one.
func TestHoldStops(t *testing.T) {
	one, err := openStore(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := one.hold(canceled); err != context.Canceled {
		t.Errorf("stopped: %v", err)
	}
	other, err := openStore(one.dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	release, err := other.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := one.hold(late); err == nil || !strings.Contains(err.Error(), "another gander is busy") {
		t.Errorf("too late: %v", err)
	}
}
