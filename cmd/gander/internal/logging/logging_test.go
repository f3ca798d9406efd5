package logging_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/cmd/gander/internal/logging"
	"gander.dev/gander/cmd/gander/internal/redact"
)

func newLogger(t *testing.T, o logging.Options) (*slog.Logger, *slog.LevelVar) {
	t.Helper()
	log, level, closer, err := logging.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	})
	return log, level
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{"": `"level":"WARN","msg":"hello","session":"s1","err":"broken"}`, "pretty": `WRN hello session=s1 err=broken`} {
		var b bytes.Buffer
		log, _ := newLogger(t, logging.Options{Format: format, Writer: &b})
		log.With(logging.KeySession, "s1").Warn("hello", "err", errors.New("broken"))
		if got := b.String(); !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("format %q: %q, want %s without colours", format, got, want)
		}
	}
}

func TestLevels(t *testing.T) {
	var b bytes.Buffer
	log, level := newLogger(t, logging.Options{Writer: &b})
	logAll := func() int {
		b.Reset()
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, 1000} {
			log.Log(t.Context(), l, "x")
		}
		return strings.Count(b.String(), "\n")
	}
	if n := logAll(); n != 3 {
		t.Errorf("by default %d records, want 3", n)
	}
	for name, want := range map[string]int{"silent": 0, "error": 2, "warn": 3, "info": 4, "debug": 5} {
		l, err := logging.ParseLevel(name)
		if err != nil {
			t.Fatal(err)
		}
		level.Set(l)
		if n := logAll(); n != want {
			t.Errorf("%s: %d records, want %d", name, n, want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	if _, _, _, err := logging.New(logging.Options{Level: "loud"}); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("bad level: %v", err)
	}
	if _, _, _, err := logging.New(logging.Options{File: filepath.Join(t.TempDir(), "no", "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("bad file: %v", err)
	}
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 2 {
		log, _, closer, err := logging.New(logging.Options{File: file})
		if err != nil {
			t.Fatal(err)
		}
		log.Error("x")
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || bytes.Count(data, []byte("\n")) != 2 {
		t.Errorf("file = %q, %v; want two records", data, err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

// A secret is in no record, wherever it was put.
func TestRedact(t *testing.T) {
	secret := "s3cr\"et\nvalue"
	for _, format := range []string{"json", "pretty"} {
		var b bytes.Buffer
		log, _ := newLogger(t, logging.Options{Format: format, Writer: &b, Redact: redact.New([]string{secret, "plain-secret"}).Redact})
		log.With("with", "plain-secret").WithGroup("plain-secret").Error("msg plain-secret",
			"attr", secret, "err", errors.New("bad "+secret), "any", map[string]string{"k": secret}, "bytes", []string{"plain-secret"})
		got := b.String()
		for _, form := range []string{"plain-secret", "s3cr", "et\\nvalue"} {
			if strings.Contains(got, form) {
				t.Errorf("%s: %q is in %s", format, form, got)
			}
		}
		if format == "json" && !json.Valid(b.Bytes()) {
			t.Errorf("no JSON: %s", got)
		}
	}
}

// lineWriter fails the test when a Write is not one record.
type lineWriter struct {
	t *testing.T
	// mu guards lines.
	mu    sync.Mutex
	lines int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := bufio.NewScanner(bytes.NewReader(p)); s.Scan(); w.lines++ {
		if !json.Valid(s.Bytes()) {
			w.t.Errorf("not a record: %s", s.Bytes())
		}
	}
	return len(p), nil
}

func TestConcurrently(t *testing.T) {
	w := &lineWriter{t: t}
	log, level := newLogger(t, logging.Options{Writer: w, Level: "info", Redact: redact.New([]string{"hunter22"}).Redact})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			log := log.With(logging.KeyTurn, "t")
			for i := range 200 {
				log.Info("hunter22", "i", i)
				level.Set(slog.LevelInfo)
			}
		})
	}
	wg.Wait()
	if w.lines != 1600 {
		t.Errorf("%d records, want 1600", w.lines)
	}
}
