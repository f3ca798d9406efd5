//go:build unix

package controlplane

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// What is packed can be unpacked, whatever the agent calls its files: the workspace is
// empty when that begins.
func TestWhatIsPackedIsUnpacked(t *testing.T) {
	from, to := openRoot(t), openRoot(t)
	names := []string{"plain", "l\xe4tin", "new\nline", `back\slash`, "-dash", " ", "\u202ename", "...", strings.Repeat("n", 255), "C:"}
	const dir, target = "d\xff/PaxHeaders.0/", "/\xff/.."
	if err := from.MkdirAll(dir+"links", 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if err := errors.Join(
			from.WriteFile(dir+name, []byte(name), 0o600), from.Chtimes(dir+name, time.Time{}, time.Unix(int64(i-5)*1e9, 0)),
			from.Symlink(target, dir+"links/"+name),
		); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	if err := errors.Join(pack(t.Context(), from, &archive, 1<<20), unpack(t.Context(), to, &archive, -1, -1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		was, err := from.Lstat(dir + name)
		is, err2 := to.Lstat(dir + name)
		data, err3 := to.ReadFile(dir + name)
		if err := errors.Join(err, err2, err3); err != nil || string(data) != name || !was.ModTime().Equal(is.ModTime()) {
			t.Errorf("%q: %q, %v", name, data, err)
		}
		if leads, err := to.Readlink(dir + "links/" + name); err != nil || leads != target {
			t.Errorf("the link %q leads to %q, %v", name, leads, err)
		}
	}
}

// A path may be as long as the system takes one, and no longer: what a chain of directories
// makes beyond that is not packed, as nobody could unpack it.
func TestPackedPathsHaveALength(t *testing.T) {
	root := openRoot(t)
	if err := root.MkdirAll(strings.Repeat(strings.Repeat("d", 255)+"/", 20), 0o700); err != nil {
		t.Fatal(err)
	}
	err := pack(t.Context(), root, new(bytes.Buffer), 1<<20)
	if se, ok := errors.AsType[*statusError](err); !ok || se.status != http.StatusRequestEntityTooLarge || len(se.text) > 300 {
		t.Errorf("the answer is %.300v", err)
	}
}

// What is listed is held, also while what is below it is packed: its number is bounded, and
// not that of what is packed already.
func TestListedFilesAreBounded(t *testing.T) {
	root := openRoot(t)
	for _, name := range []string{"d/e/1", "d/e/2", "d/e/3", "d/e/4"} {
		if err := errors.Join(root.MkdirAll("d/e", 0o700), root.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for room, fits := range map[int]bool{6: true, 5: false} {
		var archive bytes.Buffer
		p := &packer{ctx: t.Context(), root: root, tw: tar.NewWriter(&archive), left: 1 << 20, room: room}
		err := p.dir(".")
		se, tooMany := errors.AsType[*statusError](err)
		if fits != (err == nil) || !fits && (!tooMany || se.status != http.StatusRequestEntityTooLarge) {
			t.Errorf("with room for %d: %v", room, err)
		}
		if packed := bytes.Count(archive.Bytes(), []byte("d/e/")) - 1; fits != (packed == 4) || !fits && packed != 0 {
			t.Errorf("with room for %d: %d files of the last directory are packed", room, packed)
		}
	}
}

func openRoot(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}
