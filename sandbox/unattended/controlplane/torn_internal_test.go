package controlplane

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/telemetry"
)

// restFleet's runs rest.
type restFleet struct{ idleFleet }

func (restFleet) Status(context.Context, string) (SandboxStatus, error) {
	return SandboxStatus{Resting: true}, nil
}
func (restFleet) Resume(context.Context, string) error { return nil }
func (restFleet) Step(context.Context, string) error   { return nil }

// addSnapshot makes snapshot 1, with so many files, of a run that is paused.
func addSnapshot(t *testing.T, p *Plane, run, workspace string, files int) {
	t.Helper()
	if err := os.MkdirAll(p.snapshotDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(p.snapshotDir(), "s.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hash := sha256.New()
	zw := gzip.NewWriter(io.MultiWriter(f, hash))
	tw := tar.NewWriter(zw)
	for i := range files {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint("new-", i), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	addRun(t, p, run)
	err = p.db.write(t.Context(), func(t *tx) error {
		_, err := t.exec("UPDATE runs SET workspace=?, state='paused' WHERE id=?", workspace, run)
		if err == nil {
			_, err = t.exec("INSERT INTO snapshots (run, label, agent, filename, size, sum, created) VALUES (1,'l','goose','s.tar.gz',1,?,1)", hex.EncodeToString(hash.Sum(nil)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tearing makes a control plane with a run, and returns when snapshot 1, of so many files,
// is being restored there, and the file that was in the workspace is gone.
func tearing(t *testing.T, files int) (p *Plane, o Options, workspace string, answered chan *httptest.ResponseRecorder) {
	t.Helper()
	p = newPlane(t, func(with *Options) { with.Fleet, o = restFleet{}, *with; o.Fleet = restFleet{} })
	workspace = t.TempDir()
	old := filepath.Join(workspace, "old")
	if err := os.WriteFile(old, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	addSnapshot(t, p, "run-00001", workspace, files)
	answered = make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- send(t, p, o.Token, "POST", "/api/snapshots/1/restore", "") }()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(old); err != nil {
			return p, o, workspace, answered
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("nothing is restored")
		}
	}
}

func tornOf(t *testing.T, p *Plane) string {
	t.Helper()
	r, err := readRun(t.Context(), p.db.read, whereID, "run-00001")
	if err != nil {
		t.Fatal(err)
	}
	return r.Torn
}

// A control plane that ends finishes what it restores.
func TestCloseFinishesRestoring(t *testing.T) {
	const files = 3000
	p, o, workspace, answered := tearing(t, files)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadDir(workspace); err != nil || len(got) != files {
		t.Errorf("%d of %d files are there when it has ended: %v", len(got), files, err)
	}
	if w := <-answered; w.Code != 200 {
		t.Errorf("restoring: %d %s", w.Code, w.Body)
	}
	if w := send(t, p, o.Token, "POST", "/api/snapshots/capture", ""); w.Code < 400 {
		t.Errorf("a snapshot after the end: %d %s", w.Code, w.Body)
	}
	next := newPlane(t, func(with *Options) { *with = o })
	if torn := tornOf(t, next); torn != "" {
		t.Errorf("a workspace that was restored is %q", torn)
	}
}

// Where a control plane could not finish that, whatever ended it, the next one knows it, and
// has no agent work on half a workspace.
func TestHalfWorkspace(t *testing.T) {
	p, o, workspace, answered := tearing(t, 100_000)
	p.patience = 0
	if torn := tornOf(t, p); !strings.Contains(torn, "snapshot 1") || !strings.Contains(torn, "snapshot 2") { // as a kill would leave it
		t.Errorf("what is being restored is %q", torn)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), workspace) {
		t.Errorf("it ends with %v", err)
	}
	if w := <-answered; w.Code != 500 || !strings.Contains(w.Body.String(), "not whole") || !strings.Contains(w.Body.String(), "snapshot 2") {
		t.Errorf("restoring: %d %s", w.Code, w.Body)
	}
	p = newPlane(t, func(with *Options) { *with = o })
	refused := func(path, body string) {
		t.Helper()
		w := send(t, p, o.Token, "POST", path, body)
		if w.Code != 409 || !strings.Contains(w.Body.String(), "not whole") || !strings.Contains(w.Body.String(), "restore a snapshot again") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	const run = `{"runId":"run-00001"}`
	refused("/api/sandbox/resume", run)
	refused("/api/sandbox/step", run)
	inner := filepath.Join(workspace, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("/api/sandbox/start", fmt.Sprintf(`{"agentType":"goose","workspace":%q}`, inner))
	if w := send(t, p, o.Token, "GET", "/api/runs/run-00001", ""); !strings.Contains(w.Body.String(), `"torn":"the workspace is not whole`) {
		t.Errorf("the run is %s", w.Body)
	}
	if w := send(t, p, o.Token, "POST", "/api/snapshots/2/restore", ""); w.Code != 200 {
		t.Fatalf("restoring again: %d %s", w.Code, w.Body)
	}
	if got, err := os.ReadDir(workspace); err != nil || len(got) != 1 || got[0].Name() != "old" {
		t.Errorf("restored again: %v %v", got, err)
	}
	if torn := tornOf(t, p); torn != "" {
		t.Errorf("afterwards it is %q", torn)
	}
	if w := send(t, p, o.Token, "POST", "/api/sandbox/resume", run); w.Code != 200 {
		t.Errorf("resuming then: %d %s", w.Code, w.Body)
	}
}

// What a keeper does not say does not count as rest.
func TestSilentKeeperIsBusy(t *testing.T) {
	p := newPlane(t)
	addSnapshot(t, p, "run-00001", t.TempDir(), 1)
	if w := send(t, p, tokenOfPerson, "POST", "/api/snapshots/1/restore", ""); w.Code != 409 || !strings.Contains(w.Body.String(), "does not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The database of a gander that knew nothing of half workspaces is brought up to date.
func TestDatabaseBeforeTorn(t *testing.T) {
	all := migrations
	migrations = migrations[:1]
	t.Cleanup(func() { migrations = all })
	file := filepath.Join(t.TempDir(), "sandbox.db")
	db, err := openDatabase(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	err = db.write(t.Context(), func(t *tx) error {
		return insertRun(t, &Run{RunID: "run-00001", State: telemetry.Paused, Desired: DesiredPaused}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.close(); err != nil {
		t.Fatal(err)
	}
	migrations = all
	if db, err = openDatabase(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	defer db.close()
	if r, err := readRun(t.Context(), db.read, whereID, "run-00001"); err != nil || r.Torn != "" {
		t.Errorf("%+v %v", r, err)
	}
}

// The run by which a workspace can be made whole again is not forgotten before.
func TestTornRunIsKept(t *testing.T) {
	p := newPlane(t)
	addRun(t, p, "run-00001")
	for _, torn := range []string{"the workspace is not whole", ""} {
		err := p.db.write(t.Context(), func(t *tx) error {
			_, err := t.exec("UPDATE runs SET stopped=1, desired='stopped', torn=?", torn)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.retainRuns(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := readRun(t.Context(), p.db.read, whereID, "run-00001"); err != nil || (r != nil) != (torn != "") {
			t.Errorf("torn %q: the run is %v, %v", torn, r, err)
		}
	}
}
