package wire

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/unattended/keeper"
)

// TestAway checks that a question waits on the page of a control plane that runs, and there only,
// and that a notice tells of it when nobody answers.
func TestAway(t *testing.T) {
	told := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	defer receiver.Close()
	sender, err := notify.New(notify.Options{URL: receiver.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	var asked atomic.Int64
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/questions" || r.Header.Get("Authorization") != "Bearer the-token" {
			t.Errorf("asked was %s with %q", r.URL, r.Header.Get("Authorization"))
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"status":"waiting"}`)
			return
		}
		_, _ = io.WriteString(w, `{"optionId":"yes"}`)
	}))
	defer plane.Close()
	if err := keeper.Announce(home, keeper.Serving{URL: plane.URL}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, TokenFile), []byte("the-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &Away{home: home, notices: sender, after: time.Millisecond}
	defer a.Close()
	q := notify.Question{ID: "question-1", Kind: "permission", Agent: "goose", Project: "shop", Title: "secret words"}
	ctx, answered := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := a.Ask(ctx, q)
		over <- err
	}()
	select {
	case body := <-told:
		if !strings.Contains(body, `"title":"goose in shop: a question waits for you"`) || strings.Contains(body, "secret words") {
			t.Errorf("told was %s", body)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was told in a minute")
	}
	answered() // in the editor
	if err := <-over; err == nil || asked.Load() != 0 {
		t.Errorf("without a control plane: %v, after %d requests", err, asked.Load())
	}
	lock := serveLock(home)
	if held, err := lock.TryLock(); !held || err != nil {
		t.Fatal(held, err)
	}
	defer func() { _ = lock.Unlock() }()
	if answer, err := a.Ask(t.Context(), q); err != nil || answer.Option != "yes" || asked.Load() != 2 {
		t.Errorf("answered was %+v, %v, after %d requests", answer, err, asked.Load())
	}
}
