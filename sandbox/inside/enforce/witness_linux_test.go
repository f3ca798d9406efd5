package enforce

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// exchanged is a policy that closes packs but those made inside, and while it is asked about
// an entry for the first time, somebody puts one of these in the place of another's.
type exchanged struct {
	*ownPacks

	asked string // the entry
	pack  string // the other's
	moved string // what becomes of that; empty when it is removed
	once  sync.Once
}

func (p *exchanged) exchange() {
	path := filepath.Join(p.tree, p.pack)
	if p.moved != "" {
		_ = os.Rename(path, filepath.Join(p.tree, p.moved))
	} else {
		_ = os.Remove(path)
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err == nil {
		p.Making(p.pack)(fd)
		_ = unix.Close(fd)
	}
}

func (p *exchanged) Access(rel string, dir bool) Access {
	if rel == p.asked {
		p.once.Do(p.exchange)
	}
	return p.ownPacks.Access(rel, dir)
}

func (p *exchanged) Closed(rel string, dir bool) bool { return p.Access(rel, dir) == None }

// exchangeUses try to get at a file in whose place there is one of their own when it is judged.
func exchangeUses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"exchanged, reading":      plainScript(`cat theirs.pack`),
		"exchanged, over a link":  plainScript(`ln -s theirs.pack link; cat link`),
		"exchanged, writing, too": plainScript(`cat <> theirs.pack`),
		"exchanged, a link":       plainScript(`ln theirs.pack mine.pack; cat moved.pack mine.pack`),
		"exchanged, another name": plainScript(`mv -T theirs.pack mine.pack; cat moved.pack mine.pack`),
		"exchanged, a descriptor": plainScript(`python3 -c 'import os; f=os.open("theirs.pack", os.O_PATH); open("go", "w"); print(open("/proc/self/fd/%d" % f).read())'`),
	}
}

// What a policy permits of the file that is at a path is not for the one that was opened
// there before.
func TestExchanged(t *testing.T) {
	requireSupport(t)
	for use := range exchangeUses() {
		t.Run(use, func(t *testing.T) {
			dir, out := stage(t)
			if err := os.WriteFile(filepath.Join(dir, "theirs.pack"), []byte(secret), 0o666); err != nil {
				t.Fatal(err)
			}
			p := &exchanged{ownPacks: &ownPacks{tree: dir, made: map[uint64]bool{}}, asked: "theirs.pack", pack: "theirs.pack", moved: "moved.pack"}
			if use == "exchanged, a descriptor" { // what has no name at all is not reached so
				p.asked, p.moved = "go", ""
				if err := os.Link(filepath.Join(dir, p.pack), filepath.Join(out, "other name")); err != nil {
					t.Fatal(err)
				}
			}
			var r report
			start(t, dir, func() Policy { return p }, placement{}, "use", use).run(t, &r)
			p.mu.Lock()
			defer p.mu.Unlock()
			if r.Leak || len(p.made) == 0 {
				t.Errorf("it was read, or nothing was exchanged: %s", r.Said)
			}
		})
	}
}
