package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/developer/shell"
)

func TestManyLines(t *testing.T) {
	spool := t.TempDir()
	r := newRunner(t, shell.Options{SpoolDir: spool})
	res := run(t, r, shell.Command{Line: "seq 101"})
	m := res.Merged
	if !m.Cut || m.Lines != 101 || m.FirstLine != 2 || m.Shown != strings.TrimSuffix(seq(2, 101), "\n") || m.Missing != 0 {
		t.Errorf("%+v", m)
	}
	if text, err := os.ReadFile(m.File); err != nil || string(text) != seq(1, 101) {
		t.Errorf("the file: %d bytes, %v", len(text), err)
	}
	if st, err := os.Stat(m.File); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the file: %v %v", st, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(spool + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestHugeLine(t *testing.T) {
	r := newRunner(t, shell.Options{})
	m := run(t, r, shell.Command{Line: "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"}).Merged
	if !m.Cut || m.Bytes != 3000005 || m.Lines != 2 || len(m.Shown) > 50_000 || !strings.HasSuffix(m.Shown, "xxx\nend") {
		t.Errorf("%d bytes, %d lines, shown %d: %.80q", m.Bytes, m.Lines, len(m.Shown), m.Shown)
	}
	if st, err := os.Stat(m.File); err != nil || st.Size() != m.Bytes {
		t.Errorf("the file: %v %v", st, err)
	}
}

// TestSpoolLimit: of more than the session may keep, the beginning and the end are
// there, and a mark says what is not.
func TestSpoolLimit(t *testing.T) {
	t.Run("small", func(t *testing.T) { spoolLimit(t, 1<<16) }) // less than what is written at once
	t.Run("large", func(t *testing.T) { spoolLimit(t, 1<<20) })
}

func spoolLimit(t *testing.T, limit int) {
	r := newRunner(t, shell.Options{SpoolLimit: int64(limit)})
	m := run(t, r, shell.Command{Line: "seq 1000000"}).Merged
	text, err := os.ReadFile(m.File)
	if err != nil {
		t.Fatal(err)
	}
	all := seq(1, 1000000)
	head, rest, marked := strings.Cut(string(text), "\n[")
	_, tail, _ := strings.Cut(rest, "]\n")
	if !marked || !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) || len(head) < limit/2 || len(tail) < limit/pieceShare {
		t.Errorf("the file has %d and %d bytes around the mark %v", len(head), len(tail), marked)
	}
	if missing := int64(len(all) - len(head) - len(tail)); missing != m.Missing || !strings.Contains(rest[:60], itoa(int(missing))) {
		t.Errorf("missing are %d, said are %d in %.60q", missing, m.Missing, rest)
	}
	if len(text) > limit+100 {
		t.Errorf("the file has %d bytes", len(text))
	}
}

// pieceShare is the part of the limit that the end of a text has at least.
const pieceShare = 16

// TestOldGivesWay: a session's older outputs make room for newer ones, with a note.
func TestOldGivesWay(t *testing.T) {
	r := newRunner(t, shell.Options{SpoolLimit: 1 << 20})
	var files []string
	for range 6 {
		files = append(files, run(t, r, shell.Command{Line: "seq 50000", SessionID: "s"}).Merged.File)
	}
	other := run(t, r, shell.Command{Line: "seq 50000", SessionID: "another"}).Merged.File
	size := int64(len(seq(1, 50000)))
	for i, file := range append(files, other) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && !strings.Contains(string(text), "was removed to make room") {
			t.Errorf("the oldest has %d bytes", len(text))
		}
		if i >= 5 && int64(len(text)) != size {
			t.Errorf("file %d has %d bytes: %.100q", i, len(text), text)
		}
	}
}

// TestNoRoom: a disk that takes nothing costs the file, not the command.
func TestNoRoom(t *testing.T) {
	r := newRunner(t, shell.Options{SpoolDir: "/proc"})
	m := run(t, r, shell.Command{Line: "seq 100000"}).Merged
	if m.Fault == nil || m.File != "" || m.Lines != 100000 || !strings.HasSuffix(m.Shown, "\n100000") {
		t.Errorf("%+v", m)
	}
}

// TestSweep: the next Runner removes what a killed one left, and nothing else.
func TestSweep(t *testing.T) {
	spool := t.TempDir()
	dead, young, alien := spool+"/gander-shell-dead", spool+"/gander-shell-young", spool+"/other"
	for _, dir := range []string{dead, young, alien} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{dead + "/lock", dead + "/output-1.txt", alien + "/lock"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := newRunner(t, shell.Options{SpoolDir: spool})
	file := run(t, first, shell.Command{Line: "seq 200"}).Merged.File
	second := newRunner(t, shell.Options{SpoolDir: spool})
	run(t, second, shell.Command{Line: "seq 200"})
	for path, want := range map[string]bool{dead: false, young: true, alien: true, file: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSplit(t *testing.T) {
	r := newRunner(t, shell.Options{})
	res := run(t, r, shell.Command{Line: "echo out; seq 3000 >&2", Split: true, Limits: shell.Limits{Lines: 2000, Bytes: 50_000, LastLines: 50, LastBytes: 10_000}})
	if res.Stdout.Shown != "out\n" || res.Stdout.Cut || !res.Stderr.Cut || res.Stderr.Shown != strings.TrimSuffix(seq(2951, 3000), "\n") || res.Merged.Lines != 3001 {
		t.Errorf("%+v", res.Output)
	}
}
