package files_test

import (
	"errors"
	"strings"
	"testing"

	"gander.dev/gander/developer/files"
)

// An editor keeps text in memory, for the files that it has open.
type editor struct {
	open map[string]string
	err  error
}

func (e *editor) ReadTextFile(path string) (string, error) {
	text, ok := e.open[path]
	if !ok && e.err == nil {
		return "", files.ErrNoBuffer
	}
	return text, e.err
}

func (e *editor) WriteTextFile(path, text string) error {
	if _, ok := e.open[path]; !ok {
		return files.ErrNoBuffer
	}
	e.open[path] = text
	return e.err
}

func TestUnsavedTextIsWhatCounts(t *testing.T) {
	y := newYard(t)
	e := &editor{open: map[string]string{y.path("project/ok"): "unsaved", y.path("project/untitled"): "not on the disk"}}
	s := y.space(func(o *files.Options) { o.Buffers = e })
	for name, want := range map[string]string{"ok": "unsaved", "untitled": "not on the disk", "sub/ok": "fine"} {
		data, info, err := s.ReadFile(name, 100)
		if err != nil || string(data) != want || info.Size() != int64(len(data)) || info.IsDir() || !info.Mode().IsRegular() {
			t.Errorf("%s: %q, %v, %v", name, data, info, err)
		}
	}
	if err := s.WriteFile("ok", []byte("by the agent"), 0o644); err != nil || e.open[y.path("project/ok")] != "by the agent" || y.read("project/ok") != "fine" {
		t.Errorf("the open file was written to the disk, or not at all: %v", err)
	}
	if err := s.WriteFile("sub/ok", []byte("by the agent"), 0o644); err != nil || y.read("project/sub/ok") != "by the agent" {
		t.Errorf("the closed file was not written: %v", err)
	}
	if err := s.WriteFile("ok", []byte{0xff}, 0o644); err != nil || y.read("project/ok") != "\xff" {
		t.Errorf("what is not text belongs on the disk: %v", err)
	}
}

func TestBuffersObeyTheRules(t *testing.T) {
	y := newYard(t)
	e := &editor{open: map[string]string{y.path("project/.env"): "SECRET", y.path("other/file"): "other", y.path("project/ok"): strings.Repeat("x", 200)}}
	s := y.space(rooted(y.dir), func(o *files.Options) { o.Buffers = e })
	for name, want := range map[string]string{".env": "restricted", "../other/file": "outside"} {
		if data, _, err := s.ReadFile(name, 100); verdict(err) != want || len(data) > 0 {
			t.Errorf("reading %s: %q, %v", name, data, err)
		}
		if err := s.WriteFile(name, nil, 0o644); verdict(err) != want {
			t.Errorf("writing %s: %v", name, err)
		}
	}
	if _, _, err := s.ReadFile("ok", 100); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large buffer: %v", err)
	}
	e.err = errors.New("the editor is gone")
	if _, _, err := s.ReadFile("ok", 1000); !errors.Is(err, e.err) {
		t.Errorf("reading: %v", err)
	}
	if err := s.WriteFile("ok", nil, 0o644); !errors.Is(err, e.err) {
		t.Errorf("writing: %v", err)
	}
}
