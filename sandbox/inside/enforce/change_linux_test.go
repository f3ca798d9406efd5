package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// interfering is a policy in whose first answer about an entry something happens.
type interfering struct {
	rules

	entry   string
	happens func()
	begun   atomic.Bool
}

func (p *interfering) Access(rel string, dir bool) Access {
	if rel == p.entry && p.begun.CompareAndSwap(false, true) {
		p.happens()
	}
	return p.rules.Access(rel, dir)
}

const whileJudged = "while a rename is judged: "

// renameUses rename, and something else when the rename is being judged.
func renameUses() map[string]func(string) ([]byte, error) {
	all := map[string]func(string) ([]byte, error){
		"refused":          script(`! mv -T from to; test -d from; test -f other`),
		"refused exchange": script(`echo > to; ! python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b"from", -100, b"to", 2) != 0)'; test -d from; test -f to; test -f other`),
	}
	all["read while it moves"] = script(`(while ! test -e go; do sleep 0.01; done; mv ruled moved; echo > went) & if cat ruled/key; then exit 1; fi; wait; test -e moved/key`)
	for name, other := range map[string]string{
		"mkdir": "mkdir made", "symlink": "ln -s open made", "link": "ln open made", "file": "echo > made", "fifo": "mkfifo made", "rename": "mv open made",
		"unlink": "rm open", "rmdir": "rmdir empty",
	} {
		all[whileJudged+name] = script(fmt.Sprintf("mkdir empty; mv -T from to & while ! test -e go; do sleep 0.01; done; %s; wait", other))
	}
	return all
}

// While a rename is judged by its names, nothing that is supervised gives them another
// meaning.
func TestRenameAlone(t *testing.T) {
	requireSupport(t)
	for use := range renameUses() {
		if !strings.HasPrefix(use, whileJudged) {
			continue
		}
		t.Run(use, func(t *testing.T) {
			dir, _ := stage(t)
			if err := os.WriteFile(filepath.Join(dir, "from"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			names := func() string {
				list, _ := filepath.Glob(filepath.Join(dir, "[a-eg-su-z]*")) // not from and to
				return fmt.Sprint(list)
			}
			type look struct {
				err          error
				before, then string
			}
			looks := make(chan look, 1)
			p := &interfering{entry: "to", happens: func() {
				var l look
				l.err = os.WriteFile(filepath.Join(dir, "go"), nil, 0o666)
				l.before = names()
				time.Sleep(300 * time.Millisecond)
				l.then = names()
				looks <- l
			}}
			var r report
			start(t, dir, func() Policy { return p }, placement{}, "use", use).run(t, &r)
			select {
			case l := <-looks:
				if l.err != nil || !r.Leak || l.before != l.then || l.then == names() {
					t.Errorf("%v: %q; %s while it is judged, %s after it, %s in the end", l.err, r.Said, l.before, l.then, names())
				}
			default:
				t.Errorf("%q, and no rename was judged", r.Said)
			}
		})
	}
}

// What somebody outside puts in the place of what was judged stays where it is.
func TestRenameOther(t *testing.T) {
	requireSupport(t)
	for _, use := range []string{"refused", "refused exchange"} {
		t.Run(use, func(t *testing.T) {
			dir, _ := stage(t)
			from, other := filepath.Join(dir, "from"), filepath.Join(dir, "other")
			if err := os.WriteFile(from, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(other, 0o777); err != nil {
				t.Fatal(err)
			}
			p := &interfering{entry: "from", happens: func() {
				_ = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}}
			var r report
			start(t, dir, func() Policy { return p }, placement{}, "use", use).run(t, &r)
			if !r.Leak {
				t.Errorf("it was moved: %q", r.Said)
			}
		})
	}
}

// ruling is a policy in which a file beside others closes them, as rules do. While it is
// asked about one of them for the first time something happens.
type ruling struct {
	interfering

	tree string
}

func (p *ruling) Access(rel string, _ bool) Access {
	if rel == p.entry && p.begun.CompareAndSwap(false, true) {
		p.happens()
	}
	if _, err := os.Stat(filepath.Join(p.tree, filepath.Dir(rel), "closes")); err == nil && filepath.Base(rel) == "key" {
		return None
	}
	return Full
}

func (p *ruling) Closed(rel string, dir bool) bool { return p.Access(rel, dir) == None }

// A file is not open for its directory having moved, with what closes it, while that was
// looked for.
func TestReadWhileItMoves(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	if err := os.Mkdir(filepath.Join(dir, "ruled"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key", "closes"} {
		if err := os.WriteFile(filepath.Join(dir, "ruled", name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := &ruling{tree: dir}
	p.entry, p.happens = "ruled/key", func() {
		_ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o666)
		for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "went")); err == nil {
				return
			}
		}
	}
	var r report
	start(t, dir, func() Policy { return p }, placement{}, "use", "read while it moves").run(t, &r)
	if !r.Leak || !p.begun.Load() {
		t.Errorf("it was read: %q", r.Said)
	}
}
