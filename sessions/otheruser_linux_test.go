package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// withoutRights calls f on a thread that root's rights to files do not hold for.
func withoutRights(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this
		if os.Geteuid() == 0 {
			const stranger = 12345
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, stranger, 0, 0) // it never fails, and the test shows whether it worked
		}
		f()
	}()
	<-done
}

// A transcript that another user wrote, as by sudo, hides no other session.
func TestTranscriptOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, nil)
	for _, id := range []acp.SessionID{"s-mine", "s-theirs"} {
		tr, err := s.Create(sessions.Header{SessionID: id, SessionKey: "agent:goose:" + string(id), AgentID: "goose", WorkingPath: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	theirs := filepath.Join(dir, "s-theirs.jsonl")
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, filepath.Join(dir, "s-mine.jsonl"): 0o644, theirs: 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	withoutRights(func() {
		page, err := s.List(t.Context(), sessions.ListOptions{})
		if err != nil || len(page.Sessions) != 1 || !slices.Equal(page.Damaged, []acp.SessionID{"s-theirs"}) {
			t.Errorf("list = %+v, %v", page, err)
		}
		if _, err := s.Resolve(t.Context(), "s-mine", "goose"); err != nil {
			t.Error(err)
		}
		if _, err := s.Info(t.Context(), "s-theirs"); !errors.Is(err, sessions.ErrDamaged) || !strings.Contains(err.Error(), theirs) {
			t.Errorf("info = %v", err)
		}
	})
}
