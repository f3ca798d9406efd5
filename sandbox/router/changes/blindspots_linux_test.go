package changes_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gander.dev/gander/sandbox/router/changes"
)

// What letters of git status do not tell, and what git does not look at.
func TestWhatStatusLettersDoNotTell(t *testing.T) {
	const setUp = `git init -q . ; printf 'ignored\n*.log\n' > .gitignore; echo one > a; echo two > b; printf 'text\nof several\nlines\n' > c; git add -A; git commit -qm first`
	for _, tt := range []struct {
		name, before, during string
		want                 []string
	}{
		{"a dirty file edited again", "echo dirty > a", "echo dirtier > a", []string{"modified a"}},
		{"a change that was committed", "", "echo new > a; git commit -qam second", []string{"modified a"}},
		{"only a commit", "echo new > a", "git commit -qam second", nil},
		{"another branch", "git branch other; echo main > a; git commit -qam second", "git checkout -q other", []string{"modified a"}},
		{"an ignored file", "", "echo x > ignored; echo y > x.log", []string{"created ignored", "created x.log"}},
		{"an ignored file again", "echo x > ignored", "echo y > ignored", []string{"modified ignored"}},
		{"content reverted", "echo dirty > a", "git checkout -q a", []string{"modified a"}},
		{"written with what it was", "", "cp a z; cat z > a; rm z", nil},
		{"touched", "", "touch a b", nil},
		{"a rename", "", "git mv c d", []string{"renamed c to d"}},
		{"a rename with an edit", "", "mv c d; echo more >> d", []string{"renamed c to d"}},
		{"an inode with other content", "", "mv c z; printf 'nothing\nthat was there\n' > z", []string{"created z", "deleted c"}},
		{"an inode used again", "", "rm a; echo other > z", []string{"created z", "deleted a"}},
		{"a mode", "", "chmod +x a", []string{"modified a (mode 0755, was 0644)"}},
		{"made and removed", "", "echo x > new; rm new; mkdir -p d/e; rmdir -p d/e", nil},
		{"a name in another alphabet", "", "echo x > 'grün ☃'", []string{"created grün ☃"}},
		{"a name in no alphabet", "", `printf x > "$(printf 'bad\377name')"`, []string{`created "bad\xffname"`}},
		{"a name of two lines", "", "printf x > 'two\nlines'", []string{`created "two\nlines"`}},
		{"a link", "", "ln -s a l", []string{"created l (link)"}},
		{"a link that points elsewhere", "ln -s a l", "ln -sf b l", []string{"modified l (link)"}},
		{"a link in place of a file", "", "ln -sf b a", []string{"modified a (link, was a file)"}},
		{"a link in place of a directory", "mkdir d; echo x > d/x", "mv d e; ln -s e d", []string{"created e (dir)", "modified d (link, was a dir)", "renamed d/x to e/x"}},
		{"a pipe", "", "mkfifo p", []string{"created p (special)"}},
		{"an empty directory", "", "mkdir d", []string{"created d (dir)"}},
		{"hooks and settings of git", "", "echo x > .git/hooks/post-checkout; git config a.b c", []string{"created .git/hooks/post-checkout", "modified .git/config"}},
		{"a repository in it", "", "git init -q sub; echo x > sub/x", []string{"created sub (dir)", "created sub/x"}},
		{"a forged modification time", "touch -d '2020-01-01' a", "echo eno > a; touch -d '2020-01-01' a", []string{"modified a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			y.sh("git config --global --list >/dev/null 2>&1 || true; " + setUp + "; rm -rf .git/hooks/*; " + tt.before)
			turn := y.turn(func() { y.sh(tt.during) })
			turn.Changes = withoutNoise(turn.Changes)
			y.expect(turn, tt.want...)
			if moved := strings.Contains(tt.during, "commit") || strings.Contains(tt.during, "checkout -q other"); moved != (turn.HeadBefore != turn.HeadAfter) {
				t.Errorf("HEAD moved from %q to %q", turn.HeadBefore, turn.HeadAfter)
			}
			if again := y.turn(func() {}); !again.Empty() {
				t.Errorf("a turn that did nothing has %s", said(again))
			}
		})
	}
}

// withoutNoise leaves out what git itself makes of a new repository.
func withoutNoise(list []changes.Change) (rest []changes.Change) {
	for _, c := range list {
		if !strings.HasPrefix(string(c.Path), "sub/.git") {
			rest = append(rest, c)
		}
	}
	return rest
}

// A file that has its size, its inode and its modification time back is found, also
// long after it was read, and the change time is all that tells.
func TestAForgedTimeHidesNothing(t *testing.T) {
	y := newYard(t)
	y.write("a", "one")
	old := time.Now().Add(-time.Hour)
	y.must(os.Chtimes(y.path("a"), old, old))
	y.turn(func() {})
	var was, is syscall.Stat_t
	y.must(syscall.Stat(y.path("a"), &was))
	turn := y.turn(func() {
		f, err := os.OpenFile(y.path("a"), os.O_WRONLY, 0)
		y.must(err)
		_, err = f.WriteString("two")
		y.must(err)
		y.must(f.Close())
		y.must(os.Chtimes(y.path("a"), old, old))
	})
	y.must(syscall.Stat(y.path("a"), &is))
	if was.Ino != is.Ino || was.Size != is.Size || was.Mtim != is.Mtim {
		t.Fatal("the times were not forged, so nothing was tried")
	}
	y.expect(turn, "modified a")
}

// The second of two changes within a step of the clock has the same change time.
func TestChangesWithinAStepOfTheClock(t *testing.T) {
	y := newYard(t)
	missed := 0
	for range 200 {
		y.write("a", "before")
		turn := y.turn(func() { y.write("a", "after!") })
		if len(turn.Changes) != 1 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of 200 changes were missed", missed)
	}
}

func TestHiddenFilesAreNeitherReadNorNamed(t *testing.T) {
	y := newYard(t)
	const secret = "SECRET-c0ffee"
	y.write(".gooseignore", ".env\n/vault/\n*.key\n")
	y.write(".env", secret)
	y.write("vault/a", secret)
	y.write("x.key", secret)
	y.must(os.Link(y.path(".env"), y.path("twin")))
	y.must(os.Link(y.path("vault/a"), y.path("twin2")))
	y.write("ok", "fine")
	turn := y.turn(func() {
		for _, name := range []string{".env", "vault/a", "vault/b", "x.key", "new.key"} {
			y.write(name, secret+"2")
		}
		y.write("ok", "finer")
	})
	y.expect(turn, "modified ok")
	if got := y.stored(); strings.Contains(got, secret) {
		t.Error("the secret is in the store")
	}

	// A file that is closed later is forgotten.
	y.write("later", secret)
	y.turn(func() { y.write("later", secret+"3") })
	if got := y.stored(); !strings.Contains(got, secret) {
		t.Fatal("what is open is not kept, so nothing was tried")
	}
	y.write(".gooseignore", ".env\n/vault/\n*.key\nlater\n")
	y.turn(func() { y.write("ok", "fine again") })
	if got := y.stored(); strings.Contains(got, secret) {
		t.Error("what is closed by now is still in the store")
	}
	turns, err := y.tree.Session("session")
	y.must(err)
	for _, turn := range turns {
		if diff := y.tree.Diff(turn, 1<<20); strings.Contains(diff, secret) {
			t.Errorf("shown: %s", diff)
		}
	}
}

// What is closed is forgotten later where it could not be at once.
func TestForgettingIsMadeUpFor(t *testing.T) {
	const secret = "SECRET-c0ffee"
	for name, between := range map[string]func(y *yard){"at the next look": func(*yard) {}, "by the next process": (*yard).reopen} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.write("later", secret)
			y.turn(func() { y.write("later", secret+"2") })
			y.reopen()
			y.turn(func() {})
			locks, err := filepath.Glob(filepath.Join(y.store, "*", "lock"))
			y.must(err)
			busy := flock.New(locks[0])
			y.must(busy.Lock())
			y.write(".gooseignore", "later\n")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := y.tree.Begin(ctx); err == nil {
				t.Fatal("it was forgotten while another process had the store, so nothing was tried")
			}
			y.must(busy.Close())
			between(y)
			y.turn(func() {})
			if got := y.stored(); strings.Contains(got, secret) {
				t.Error("what is closed is still in the store")
			}
		})
	}
}

// What a directory hides that cannot be listed may be any file with several names.
func TestLinksOfWhatIsNotListedAreNotKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode os.FileMode
		most int // entries of a directory
	}{{"too many files", 0o755, 5}, {"not to be listed", 0o311, 1000}, {"not to be searched", 0o444, 1000}} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mode != 0o755 && os.Geteuid() == 0 {
				t.Skip("root lists everything")
			}
			const secret = "s3cr3t-canary"
			y := newYard(t)
			changes.LimitDirs(y.tree, tt.most)
			y.write("d/.env", secret)
			for i := range 10 {
				y.write("d/"+string(rune('a'+i)), "")
			}
			y.must(os.Link(y.path("d/.env"), y.path("copy.txt")))
			y.write("plain", "plain text")
			y.must(os.Chmod(y.path("d"), tt.mode))
			t.Cleanup(func() { _ = os.Chmod(y.path("d"), 0o755) })
			y.turn(func() { y.write("other", "other text") })
			if got := y.stored(); strings.Contains(got, secret) || !strings.Contains(got, "plain text") || !strings.Contains(got, "other text") {
				t.Errorf("what is kept is %q", got)
			}
		})
	}
}

// What a turn shut is named as not compared, and neither taken for deleted nor in the way
// of an undo, which says that what is in it stays.
func TestWhatATurnShutIsNotCompared(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root looks at everything")
	}
	for _, mode := range []string{"0000", "0111", "0444", "0600"} {
		t.Run(mode, func(t *testing.T) {
			y := newYard(t)
			y.sh("mkdir -p d/e shut; echo one > a; echo two > d/c; echo three > d/e/f; chmod 000 shut")
			turn := y.turn(func() { y.sh("echo x > a; echo y > d/c; chmod " + mode + " d; rm -r shut") })
			y.expect(turn, "deleted shut", "modified a", "modified d (mode "+mode+", was 0755)")
			want := []string{"d: permission denied", "shut: permission denied"}
			if !slices.Equal(turn.NotCompared, want) {
				t.Errorf("not compared: %q", turn.NotCompared)
			}
			u, err := y.undo()
			y.must(err)
			for _, line := range want {
				if !slices.Contains(u.Skipped, "Not compared, so that what changed there stays: "+line+".") {
					t.Errorf("skipped: %q", u.Skipped)
				}
			}
			if y.read("a") != "one\n" || y.read("d/c") != "y\n" || y.read("d/e/f") != "three\n" {
				t.Error(y.state())
			}
			turn = y.turn(func() { y.sh("echo z > d/c") })
			y.expect(turn, "modified d/c")
		})
	}
}

// A file that its owner may not read stays, and why is said.
func TestAFileThatATurnShutStays(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	y := newYard(t)
	y.sh("echo one > a; echo two > b")
	y.turn(func() { y.sh("echo x > a; chmod 000 a; echo y > b") })
	u, err := y.undo()
	y.must(err)
	if len(u.Skipped) != 1 || !strings.HasPrefix(u.Skipped[0], "a stays as it is: its content was not read") || y.read("b") != "two\n" {
		t.Errorf("skipped: %q, and b is %q", u.Skipped, y.read("b"))
	}
}

// stored is everything in the store.
func (y *yard) stored() string {
	y.Helper()
	var b strings.Builder
	y.must(walkFiles(y.store, func(data []byte) { b.Write(data) }))
	return b.String()
}

// What is kept of a project that nobody uses goes.
func TestSweep(t *testing.T) {
	y := newYard(t)
	y.write("a", "x")
	y.turn(func() { y.write("a", "y") })
	y.reopen()
	old := time.Now().Add(-48 * time.Hour)
	trees, err := filepath.Glob(filepath.Join(y.store, "*", "tree"))
	y.must(err)
	y.must(os.Chtimes(trees[0], old, old))
	y.must(changes.Sweep(y.store, time.Hour))
	if got := y.stored(); got == "" {
		t.Error("what is open was removed")
	}
	y.must(y.tree.Close())
	y.must(changes.Sweep(y.store, 72*time.Hour))
	if got := y.stored(); got == "" {
		t.Error("what was used the day before yesterday was removed")
	}
	y.must(changes.Sweep(y.store, time.Hour))
	if got := y.stored(); got != "" {
		t.Error("what is not used is still there")
	}
	y.open()
}
