package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// got holds what a receiver was sent.
type got struct {
	header http.Header
	body   string
}

// receiver takes notes, and answers them as answer says; nil is 200.
func receiver(t *testing.T, answer http.HandlerFunc) (*httptest.Server, chan got) {
	t.Helper()
	came := make(chan got, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- got{r.Header, string(body)}
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, came
}

func sender(t *testing.T, o Options) *Sender {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.pause = time.Millisecond
	t.Cleanup(s.Close)
	return s
}

func next(t *testing.T, came chan got) got {
	t.Helper()
	select {
	case g := <-came:
		return g
	case <-time.After(time.Minute):
		t.Fatal("nothing came in a minute")
		return got{}
	}
}

var note = Note{
	Kind: "run", State: "paused", Agent: "goose", Project: "shop\r\nX-Evil: 1\u202e", Run: "r1", Words: "the key is\nhunter2", Dir: "/home/me/shop",
	Link: "http://127.0.0.1:3000/#run=r1",
}

// TestNote checks what leaves: names and states, and words only by the setting and past Look.
func TestNote(t *testing.T) {
	s, came := receiver(t, nil)
	sender(t, Options{URL: s.URL, Token: "tok"}).Send(note)
	g := next(t, came)
	var body map[string]string
	if err := json.Unmarshal([]byte(g.body), &body); err != nil {
		t.Fatal(err)
	}
	if body["title"] != "goose in shop  X-Evil: 1: paused" || body["state"] != "paused" || body["runId"] != "r1" || body["link"] != note.Link || g.header.Get("Authorization") != "Bearer tok" {
		t.Errorf("there came %v with %v", body, g.header)
	}
	if strings.Contains(g.body, "hunter2") || strings.Contains(g.body, "/home/me") {
		t.Errorf("words or paths left: %s", g.body)
	}
	for _, c := range []struct {
		format string
		look   error
		want   string
	}{{Ntfy, nil, "paused: the key is hunter2"}, {Ntfy, errors.New("closed content"), "paused"}} {
		sender(t, Options{URL: s.URL, Format: c.format, Words: true, Look: func(_ context.Context, dir, words string) error {
			if dir != note.Dir || words != note.Words {
				t.Errorf("looked at %q of %q", words, dir)
			}
			return c.look
		}}).Send(note)
		if g := next(t, came); g.body != c.want || g.header.Get("Click") != note.Link || !strings.HasPrefix(g.header.Get("Title"), "goose in shop") || g.header.Get("X-Evil") != "" {
			t.Errorf("there came %q with %v", g.body, g.header)
		}
	}
	for _, bad := range []string{"", "file:///etc", "ntfy.sh/x"} {
		if _, err := New(Options{URL: bad}); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

// TestReceivers checks that receivers that are slow, dead, redirecting or hostile cost a bounded
// number of tries, and that senders do not wait.
func TestReceivers(t *testing.T) {
	elsewhere, wrong := receiver(t, nil)
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		tries  int
	}{
		"redirecting": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, 1},
		"refusing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 1},
		"broken":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 3},
		"hostile": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(http.StatusOK)
		}, 3},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			s, came := receiver(t, c.answer)
			from := sender(t, Options{URL: s.URL})
			from.Send(note)
			for range c.tries {
				next(t, came)
			}
			from.Send(Note{Kind: "run", State: "last"}) // comes only when the first was given up
			if g := next(t, came); !strings.Contains(g.body, `"last"`) {
				t.Errorf("tried once more: %s", g.body)
			}
		})
	}
	if len(wrong) > 0 {
		t.Error("a redirect was followed")
	}
}

// TestDeadReceiver checks that what nobody answers is dropped when there is too much of it, that
// nothing waits for it, and that Close does not.
func TestDeadReceiver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dropped atomic.Int64
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "too many") {
			dropped.Add(1)
		}
		return len(p), nil
	}), nil))
	s := sender(t, Options{URL: "http://" + l.Addr().String(), Log: log})
	began := time.Now()
	for range 1000 {
		s.Send(note)
	}
	if n := dropped.Load(); n != 1000-most {
		t.Errorf("%d were dropped, want %d", n, 1000-most)
	}
	s.Close()
	if took := time.Since(began); took > timeout {
		t.Errorf("it took %v", took)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
