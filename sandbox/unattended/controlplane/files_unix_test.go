//go:build unix

package controlplane_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// put makes a file of a workspace.
func put(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// yard is a workspace as a hostile agent would leave it, and a secret beside it.
func yard(t *testing.T) (work, secret string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, secret = filepath.Join(dir, "work"), filepath.Join(dir, "secret")
	put(t, secret, "the secret of the host", 0o600)
	put(t, filepath.Join(work, "a.txt"), "text", 0o644)
	put(t, filepath.Join(work, "dir", "b.sh"), "#!/bin/sh\n", os.ModeSetuid|os.ModeSetgid|os.ModeSticky|0o755)
	put(t, filepath.Join(work, "dir", "deep", "c"), "", 0o400)
	put(t, filepath.Join(work, "binary"), "a\x00b", 0o644)
	put(t, filepath.Join(work, "long"), strings.Repeat("é", 600<<10), 0o644)
	put(t, filepath.Join(work, "umlaut é \" name"), "x", 0o644)
	link(t, secret, filepath.Join(work, "out-absolute"))
	link(t, "../secret", filepath.Join(work, "out-relative"))
	link(t, "../../..", filepath.Join(work, "dir", "out-dir"))
	link(t, "/", filepath.Join(work, "root"))
	link(t, "dir/b.sh", filepath.Join(work, "inside"))
	link(t, "round", filepath.Join(work, "round"))
	if err := syscall.Mkfifo(filepath.Join(work, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return work, secret
}

// Nothing outside of the workspace can be listed, read or downloaded, and nothing in it
// can make a request wait.
func TestFiles(t *testing.T) {
	work, _ := yard(t)
	s := planetest.Start(t, planetest.Options{})
	want(t, s, 503, "GET", "/api/sandbox/files", nil) // nothing runs, as V
	begin(t, s, map[string]any{"agentType": "goose", "workspace": work})

	list := want(t, s, 200, "GET", "/api/sandbox/files", nil).body
	kinds := map[string]string{}
	for _, e := range list["entries"].([]any) {
		entry := e.(map[string]any)
		kinds[entry["name"].(string)] = entry["type"].(string)
	}
	for name, kind := range map[string]string{"dir": "directory", "a.txt": "file", "out-absolute": "link", "root": "link", "pipe": "other"} {
		if kinds[name] != kind {
			t.Errorf("%s is listed as %q, want %s", name, kinds[name], kind)
		}
	}
	if first := list["entries"].([]any)[0].(map[string]any); list["path"] != "/workspace" || first["name"] != "dir" {
		t.Errorf("the list of %v begins with %v", list["path"], first)
	}
	tests := []struct {
		path             string
		list, read, load int
	}{
		{"/workspace/", 200, 400, 400},
		{"/workspace/dir", 200, 400, 400},
		{"/workspace/a.txt", 400, 200, 200},
		{"/workspace/dir/../a.txt", 400, 200, 200},
		{"/workspace/inside", 400, 200, 200},
		{"/workspace/nothing", 404, 404, 404},
		{"/workspace/pipe", 400, 400, 400},
		{"/workspace/round", 400, 400, 400},
		{"/workspace/out-absolute", 400, 400, 400},
		{"/workspace/out-relative", 400, 400, 400},
		{"/workspace/dir/out-dir", 400, 400, 400},
		{"/workspace/dir/out-dir/secret", 400, 400, 400},
		{"/workspace/root/etc/passwd", 400, 400, 400},
		{"/workspace/../etc/passwd", 400, 400, 400},
		{"/workspace/../../etc/passwd", 400, 400, 400},
		{"/workspace2/a.txt", 400, 400, 400},
		{"/etc/passwd", 400, 400, 400},
		{"a.txt", 400, 400, 400},
		{"..", 400, 400, 400},
		{"/workspace/a.txt%00", 400, 400, 400},
		{"/workspace/a.txt/x", 400, 400, 400},
		{"/workspace/%2e%2e/secret", 400, 400, 400},
	}
	for _, tt := range tests {
		for route, status := range map[string]int{"files": tt.list, "files/read": tt.read, "files/download": tt.load} {
			r := ask(t, s, s.Token, "GET", "/api/sandbox/"+route+"?path="+tt.path, nil)
			if r.status != status || strings.Contains(r.text, "the secret of") || strings.Contains(r.text, "root:") {
				t.Errorf("%s %s: %d %.200s, want %d", route, tt.path, r.status, r.text, status)
			}
		}
	}
	if r := want(t, s, 200, "GET", "/api/sandbox/files/read?path=/workspace/binary", nil).body; r["binary"] != true || r["content"] != "" || r["bytes"] != 3.0 {
		t.Errorf("a binary file is %v", r)
	}
	long := want(t, s, 200, "GET", "/api/sandbox/files/read?path=/workspace/long", nil).body
	if n := len(long["content"].(string)); long["truncated"] != true || n > 1<<20 || n < 1<<20-4 || long["binary"] != false || strings.ContainsRune(long["content"].(string), '\uFFFD') {
		t.Errorf("a long file: %d bytes, truncated %v, binary %v", n, long["truncated"], long["binary"])
	}
	load := want(t, s, 200, "GET", "/api/sandbox/files/download?path=/workspace/umlaut%20%C3%A9%20%22%20name", nil)
	if load.text != "x" || !strings.HasPrefix(load.header.Get("Content-Disposition"), "attachment") || load.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a download is %v", load.header)
	}
	r := ask(t, s, "", "GET", "/api/sandbox/files/download?path=/workspace/a.txt&token="+s.Token, nil)
	if r.status != 200 || r.text != "text" {
		t.Errorf("a download with the token in the query: %d %s", r.status, r.text)
	}
}

// tree is what is in a workspace, except pipes: name, mode and content or target.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case os.ModeSymlink:
			target, err := os.Readlink(name)
			out[rel] = "-> " + target
			return err
		case os.ModeDir:
			out[rel] = info.Mode().String()
		case 0:
			data, err := os.ReadFile(name)
			out[rel] = info.Mode().String() + info.ModTime().UTC().Format(" 150405 ") + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A snapshot brings back what was there and nothing else, only while nobody works there,
// and keeps what it replaces.
func TestSnapshots(t *testing.T) {
	work, secret := yard(t)
	s := planetest.Start(t, planetest.Options{})
	want(t, s, 503, "POST", "/api/snapshots/capture", nil)
	run := begin(t, s, map[string]any{"agentType": "goose", "workspace": work})
	first := want(t, s, 200, "POST", "/api/snapshots/capture", map[string]any{"label": "first"}).body
	if first["label"] != "first" || first["agentType"] != "goose" || first["sizeBytes"] == 0.0 {
		t.Errorf("the snapshot is %v", first)
	}
	before := tree(t, work)
	// The agent changes everything, and puts links where files were.
	if err := os.RemoveAll(filepath.Join(work, "dir")); err != nil {
		t.Fatal(err)
	}
	link(t, filepath.Dir(secret), filepath.Join(work, "dir"))
	if err := os.Remove(filepath.Join(work, "a.txt")); err != nil {
		t.Fatal(err)
	}
	link(t, "../secret", filepath.Join(work, "a.txt"))
	put(t, filepath.Join(work, "new"), "new", 0o644)
	changed := tree(t, work)

	restore := "/api/snapshots/1/restore"
	want(t, s, 409, "POST", restore, nil) // it runs
	want(t, s, 200, "POST", "/api/sandbox/pause", nil)
	sent(t, s, run)
	answer := want(t, s, 200, "POST", restore, nil).body
	after := tree(t, work)
	mend := func(m map[string]string) { // the bits that are dropped
		m["dir/b.sh"] = strings.Replace(m["dir/b.sh"], "ugtrwxr-xr-x", "-rwxr-xr-x", 1)
	}
	mend(before)
	if !equal(before, after) {
		t.Errorf("restored:\n%v\nwant:\n%v", after, before)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "the secret of the host" {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	if answer["snapshotId"] != 1.0 || answer["before"].(map[string]any)["id"] != 2.0 {
		t.Errorf("the answer is %v", answer)
	}
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	want(t, s, 200, "POST", "/api/snapshots/2/restore", nil) // also of a run that was stopped
	if again := tree(t, work); !equal(changed, again) {
		t.Errorf("restored again:\n%v\nwant:\n%v", again, changed)
	}

	load := want(t, s, 200, "GET", "/api/snapshots/1/download", nil)
	if load.header.Get("Content-Type") != "application/gzip" || !strings.HasPrefix(load.text, "\x1f\x8b") {
		t.Errorf("a download is %v", load.header)
	}
	if list := want(t, s, 200, "GET", "/api/snapshots", nil).body["snapshots"].([]any); len(list) != 3 || list[2].(map[string]any)["id"] != 1.0 {
		t.Errorf("the snapshots are %v", list)
	}
	file := filepath.Join(s.Dir, "snapshots", first["filename"].(string))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of a snapshot: %v %v", info, err)
	}
	if err := os.WriteFile(file, []byte("not what it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, s, 409, "POST", restore, nil)
	if again := tree(t, work); !equal(changed, again) {
		t.Error("a broken snapshot was restored in part")
	}
	want(t, s, 200, "DELETE", "/api/snapshots/1", nil)
	want(t, s, 404, "DELETE", "/api/snapshots/1", nil)
	want(t, s, 404, "POST", restore, nil)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}

	half := filepath.Join(s.Dir, "snapshots", ".new-1") // of one that was killed while it made it
	put(t, half, "half", 0o600)
	s.Restart()
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("half a snapshot stays: %v", err)
	}
	if list := want(t, s, 200, "GET", "/api/snapshots", nil).body["snapshots"].([]any); len(list) != 2 {
		t.Errorf("of the snapshots %v are left", list)
	}
}

// What is emptied is no workspace of another run: none starts or goes on there until it is
// restored, and while one is there nothing is restored.
func TestRestoringAlone(t *testing.T) {
	top := t.TempDir()
	inner := filepath.Join(top, "inner")
	put(t, filepath.Join(inner, "file"), "work", 0o644)
	s := planetest.Start(t, planetest.Options{})
	inTop, inInner := map[string]any{"agentType": "goose", "workspace": top}, map[string]any{"agentType": "opencode", "workspace": inner}
	begin(t, s, inTop)
	file := want(t, s, 200, "POST", "/api/snapshots/capture", nil).body["filename"].(string)
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	other := begin(t, s, inInner)
	const restore = "/api/snapshots/1/restore"
	if r := want(t, s, 409, "POST", restore, nil); !strings.Contains(r.text, other) {
		t.Errorf("restoring around a run: %s", r.text)
	}
	want(t, s, 200, "POST", "/api/sandbox/pause", nil)
	sent(t, s, other)

	pipe := filepath.Join(s.Dir, "snapshots", file) // whose reading waits for us
	if err := os.Rename(pipe, pipe+".whole"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	restored := make(chan reply, 1)
	go func() { restored <- ask(t, s, s.Token, "POST", restore, nil) }()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when it reads
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close() // where the test ends early
	for _, start := range []map[string]any{inTop, inInner} {
		if r := want(t, s, 409, "POST", "/api/sandbox/start", start); !strings.Contains(r.text, "restored") {
			t.Errorf("a start in %v: %s", start["workspace"], r.text)
		}
	}
	for _, order := range []string{"resume", "step"} { // refused at once: nobody waits for what may take an hour
		if r := want(t, s, 409, "POST", "/api/sandbox/"+order, map[string]any{"runId": other}); !strings.Contains(r.text, "restored") {
			t.Errorf("%s in a workspace that is restored: %s", order, r.text)
		}
	}
	want(t, s, 200, "POST", "/api/sandbox/pause", map[string]any{"runId": other})
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-restored; r.status != 409 || !strings.Contains(r.text, "not what it was") {
		t.Errorf("an empty snapshot: %d %s", r.status, r.text)
	}
	want(t, s, 200, "POST", "/api/sandbox/resume", map[string]any{"runId": other})
	if err := os.Rename(pipe+".whole", pipe); err != nil {
		t.Fatal(err)
	}
	sent(t, s, other)
	want(t, s, 409, "POST", restore, nil)
	want(t, s, 200, "POST", "/api/sandbox/stop", nil)
	begin(t, s, inTop)
}

// A run that has paused itself is one that went astray: its workspace can be put back, and
// it is still paused then. What its keeper knows counts, not what has come here of it.
func TestRestoringWherePausedByItself(t *testing.T) {
	work := t.TempDir()
	file := filepath.Join(work, "file")
	put(t, file, "good", 0o644)
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, map[string]any{"agentType": "goose", "workspace": work})
	want(t, s, 200, "POST", "/api/snapshots/capture", nil)
	put(t, file, "astray", 0o644)
	const restore = "/api/snapshots/1/restore"
	if r := want(t, s, 409, "POST", restore, nil); !strings.Contains(r.text, "at work") || !strings.Contains(r.text, run) {
		t.Errorf("restoring where a run is at work: %s", r.text)
	}
	const why = "5 iterations in a row have failed"
	s.Fleet.Emit(run, telemetry.Event{Type: telemetry.StateChange, State: telemetry.Paused, Reason: why})
	sent(t, s, run)
	want(t, s, 200, "POST", restore, nil)
	if got, err := os.ReadFile(file); err != nil || string(got) != "good" {
		t.Errorf("the file is %q, %v", got, err)
	}
	if r := want(t, s, 200, "GET", "/api/runs/"+run, nil).body; r["state"] != "paused" || r["reason"] != why {
		t.Errorf("afterwards the run is %v", r)
	}
	want(t, s, 200, "POST", "/api/sandbox/resume", nil)
	want(t, s, 409, "POST", restore, nil) // also before it has told that it goes on
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
