package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// interfering is a policy in whose first answer about an entry something happens.
type interfering struct {
	rules

	entry   string
	happens func()
}

func (p *interfering) Access(rel string, dir bool) Access {
	if do := p.happens; do != nil && rel == p.entry {
		p.happens = nil
		do()
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
			err := os.WriteFile(filepath.Join(dir, "from"), nil, 0o666)
			names := func() string {
				list, _ := filepath.Glob(filepath.Join(dir, "[a-eg-su-z]*")) // not from and to
				return fmt.Sprint(list)
			}
			var before, then string
			p := &interfering{entry: "to", happens: func() {
				err = os.WriteFile(filepath.Join(dir, "go"), nil, 0o666)
				before = names()
				time.Sleep(300 * time.Millisecond)
				then = names()
			}}
			var r report
			start(t, dir, func() Policy { return p }, placement{}, "use", use).run(t, &r)
			if err != nil || !r.Leak || before != then || then == names() {
				t.Errorf("%v: %q; %s while it is judged, %s after it, %s in the end", err, r.Said, before, then, names())
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
