package changes_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gander.dev/gander/sandbox/router/changes"
)

func walkFiles(dir string, fn func([]byte)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		fn(data)
		return err
	})
}

// Nothing of the host comes in by a link, wherever it is and whenever it comes.
func TestLinksLeadNowhere(t *testing.T) {
	y := newYard(t)
	const secret = "HOST-SECRET"
	outside := filepath.Join(filepath.Dir(y.dir), "outside")
	y.must(os.Mkdir(outside, 0o755))
	y.must(os.WriteFile(filepath.Join(outside, "f"), []byte(secret), 0o644))
	y.write("d/f", "mine")
	for i := range 40 {
		deep := fmt.Sprintf("deep%d/er", i)
		y.must(os.MkdirAll(filepath.Join(outside, deep), 0o755))
		y.must(os.WriteFile(filepath.Join(outside, deep, "f"), []byte(secret), 0o644))
		y.write("d/"+deep+"/f", "mine")
	}
	y.must(os.Symlink(outside, y.path("link")))
	y.must(os.Symlink(filepath.Join(outside, "f"), y.path("file")))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // d is now a directory, now a link to the outside
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(y.path("d"), y.path("e"))
			_ = os.Symlink(outside, y.path("d"))
			_ = os.Remove(y.path("d"))
			_ = os.Rename(y.path("e"), y.path("d"))
		}
	})
	for range 300 {
		before, err := y.tree.Begin(context.Background())
		y.must(err)
		turn, err := y.tree.End(context.Background(), before, "s", "t")
		y.must(err)
		for _, c := range turn.Changes {
			if c.After != nil && c.After.Size == int64(len(secret)) && c.After.Type == changes.TypeFile {
				t.Fatalf("the host's file was seen: %v", c.String())
			}
		}
	}
	close(stop)
	wg.Wait()
	if strings.Contains(y.stored(), secret) {
		t.Error("the host's file is in the store")
	}
}

func TestPipesDevicesAndDepthHoldNothingUp(t *testing.T) {
	y := newYard(t)
	y.must(unix.Mkfifo(y.path("pipe"), 0o644))
	y.must(unix.Mkfifo(y.path("pipe2"), 0o644))
	if err := unix.Mknod(y.path("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Log("no device was made:", err)
	}
	fd, err := unix.Open(y.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	y.must(err)
	name := strings.Repeat("x", 200)
	for range 40 { // 8,000 bytes of path
		y.must(unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		y.must(err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	began := time.Now()
	turn := y.turn(func() { y.write("ok", "fine") })
	y.expect(turn, "created ok")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(turn.NotCompared) != 1 || !strings.Contains(turn.NotCompared[0], "too long") {
		t.Errorf("not compared: %q", turn.NotCompared)
	}
	y.sh("rm -rf " + name)
}

// What there is no time for is said, and not taken for deleted or made.
func TestTimeIsBounded(t *testing.T) {
	y := newYard(t)
	for i := range 200 {
		y.write(fmt.Sprintf("d%d/f", i), "x")
	}
	y.turn(func() {})
	before, err := y.tree.Begin(context.Background())
	y.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if turn, err := y.tree.End(ctx, before, "s", "t"); err == nil {
		t.Errorf("without time it found %s", said(turn))
	} else if !strings.Contains(err.Error(), "no time") {
		t.Error(err)
	}
	y.write("d7/f", "other")
	turn, err := y.tree.End(context.Background(), before, "s", "t")
	y.must(err)
	y.expect(turn, "modified d7/f")
}

// A directory that grew beyond all bounds is named; what was known of it, and of what
// is below it, is neither taken for deleted nor for made.
func TestADirectoryWithoutEnd(t *testing.T) {
	y := newYard(t)
	y.write("d/e/f", "x")
	y.write("ok", "x")
	y.turn(func() {})
	changes.LimitDirs(y.tree, 50)
	turn := y.turn(func() {
		for i := range 60 {
			y.write(fmt.Sprintf("d/many%d", i), "x")
		}
		y.write("ok", "y")
	})
	y.expect(turn, "modified ok")
	if len(turn.NotCompared) != 1 || turn.NotCompared[0] != "d: there are too many files" {
		t.Errorf("not compared: %q", turn.NotCompared)
	}
	turn = y.turn(func() { y.sh("rm d/many*; echo other > d/e/f") })
	y.expect(turn, "modified d/e/f")
}

// Only what can be made again is not kept, and it is counted.
func TestDependenciesAreCounted(t *testing.T) {
	y := newYard(t)
	y.write("node_modules/a/index.js", "one")
	y.write("node_modules/b/index.js", "one")
	y.write("node_modules/c/index.js", "one")
	turn := y.turn(func() {
		y.write("node_modules/a/index.js", "other")
		y.write("node_modules/new/index.js", "one")
		y.must(os.RemoveAll(y.path("node_modules/b")))
	})
	y.expect(turn)
	if len(turn.Heavy) != 1 || turn.Heavy[0] != (changes.Heavy{Dir: "node_modules", Created: 1, Modified: 1, Deleted: 1}) {
		t.Errorf("counted: %+v", turn.Heavy)
	}
}

// Somebody writes while files are read; nothing breaks, and in the end all is known.
func TestAWriterInTheMiddle(t *testing.T) {
	y := newYard(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := y.path(fmt.Sprintf("f%d", i%20))
			_ = os.WriteFile(name, []byte(strings.Repeat("x", i%5000)), 0o644)
			if i%3 == 0 {
				_ = os.Remove(name)
			}
		}
	})
	for range 50 {
		y.turn(func() {})
	}
	close(stop)
	wg.Wait()
	y.turn(func() {})
	turn := y.turn(func() { y.sh("for i in f*; do echo changed > $i; done") })
	entries, err := os.ReadDir(y.dir)
	y.must(err)
	if len(turn.Changes) != len(entries) {
		t.Errorf("%d files, and found: %s", len(entries), said(turn))
	}
}

// No repository is made in a directory of the person's, nor anything else.
func TestNothingIsMadeInTheProject(t *testing.T) {
	y := newYard(t)
	y.write("a", "one")
	before := y.state()
	y.turn(func() {})
	y.turn(func() { y.write("a", "two") })
	_, err := y.tree.Undo(context.Background(), "")
	y.must(err)
	y.reopen()
	if after := y.state(); after != before {
		t.Errorf("it was\n%sand is\n%s", before, after)
	}
}

// What an undo looks at is no larger than what the turn left, whatever became of it.
func TestUndoReadsNoFileThatGrew(t *testing.T) {
	const files = 200
	y := newYard(t)
	y.turn(func() {
		for i := range files {
			y.write(fmt.Sprintf("f%d", i), "x")
		}
	})
	for i := range files {
		y.must(os.Truncate(y.path(fmt.Sprintf("f%d", i)), 64<<20))
	}
	began := time.Now()
	if _, err := y.undo(); err == nil || !strings.Contains(err.Error(), "nothing was undone") {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A file far down costs a look at the rules of every directory above it: what is deeper
// than any project is named, and an undo of many such files has nothing to do.
func TestDepthIsBounded(t *testing.T) {
	y := newYard(t)
	turn := y.turn(func() {
		for i := range 20 {
			y.write(fmt.Sprintf("%sf%d", strings.Repeat("d/", 1600), i), "x")
		}
	})
	if len(turn.NotCompared) != 1 || !strings.HasSuffix(turn.NotCompared[0], "d: its path is too long") || strings.Count(turn.NotCompared[0], "d/") != 200 {
		t.Errorf("not compared: %q", turn.NotCompared)
	}
}

// Long paths are bounded together, as each may have thousands of bytes.
func TestLongPathsAreBounded(t *testing.T) {
	y := newYard(t)
	y.write("ok", "x")
	changes.LimitPaths(y.tree, 10_000)
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 5)
	turn := y.turn(func() {
		for i := range 20 {
			y.write(fmt.Sprintf("%sf%d", deep, i), "x")
		}
	})
	if len(turn.NotCompared) != 1 || !strings.HasSuffix(turn.NotCompared[0], "d: there are too many files") {
		t.Errorf("not compared: %q", turn.NotCompared)
	}
}
