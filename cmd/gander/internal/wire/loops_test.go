package wire

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/unattended/keeper"
	"gander.dev/gander/sessions"
)

// The session of a run that goes on without a control plane is not deleted either.
func TestDeletableOffline(t *testing.T) {
	home := t.TempDir()
	dir, err := keeper.RunDir(home, "run-1")
	if err == nil {
		err = dir.Write(keeper.Spec{RunID: "run-1", SessionID: "session-1", Agent: "goose", Workspace: home, Desired: keeper.Running}, "token")
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &loops{home: home, secrets: cli.NewSecrets(nil), runs: map[acp.SessionID]string{}}
	info := &sessions.Info{ID: "session-1", Origin: sessions.OriginLoop}
	if err := router.Deletable(t.Context(), l, info); err != nil {
		t.Errorf("nobody keeps the run, and its session cannot be deleted: %v", err)
	}
	lock := flock.New(filepath.Join(dir.Path, "keeper.lock")) // as its keeper
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	if err := router.Deletable(t.Context(), l, info); err == nil || !strings.Contains(err.Error(), "the loop run-1, which is going on; stop it first") {
		t.Errorf("the session of a run that is kept can be deleted: %v", err)
	}
	if err := router.Deletable(t.Context(), l, &sessions.Info{ID: "session-1"}); err != nil {
		t.Errorf("an ordinary session cannot be deleted: %v", err)
	}
}
