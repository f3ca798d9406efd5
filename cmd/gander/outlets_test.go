package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/gateway"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/rules/permit"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/unattended/keeper"
	"gander.dev/gander/sessions"
)

// What a session has spent counts on in another process, until it is deleted.
func TestSpentIsKept(t *testing.T) {
	cfg, err := config.Load(config.Options{Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	way := confine.Way{Session: "a-session", WorkingDir: t.TempDir(), Context: t.Context(), Notice: func(string, string) { told++ }}
	w := func() *wiring { return &wiring{cfg: cfg} }
	o := w().outlet(way)
	o.meter = gateway.ResumeMeter(gateway.Spent{Calls: 2, Input: 30, Output: 4, Cost: 0.5, Unpriced: 1})
	if err := o.keepSpent(); err != nil {
		t.Fatal(err)
	}
	if got := w().outlet(way).meter.Spent(); got != o.meter.Spent() {
		t.Errorf("in another process: %+v", got)
	}
	if got := w().spent(way.Session); got != "2 calls, 30 tokens in and 4 out, cost 0.5 without 1 calls that have no price" {
		t.Errorf("in words: %s", got)
	}
	info, err := os.Stat(o.spent)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if err := os.WriteFile(o.spent, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w().outlet(way).meter.Spent(); got != (gateway.Spent{}) || told != 1 {
		t.Errorf("a file that cannot be read: %+v, told %d times", got, told)
	}
	store, err := sessions.Open(filepath.Join(cfg.Home, "sessions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := (router.Kept{Store: store, StateDir: cfg.Home}).Erase(t.Context(), way.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.spent); !os.IsNotExist(err) {
		t.Errorf("after the session was deleted: %v", err)
	}
}

// A host that was allowed for a project is allowed in that project only, and not any
// more when it was taken back.
func TestHostMemory(t *testing.T) {
	store := permit.Open(t.TempDir())
	here, there := hostMemory{store, t.TempDir()}, hostMemory{store, t.TempDir()}
	allowed := func(m hostMemory) bool {
		ok, err := m.allows("a.example:443")
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if err := here.add("a.example:443"); err != nil || !allowed(here) || allowed(there) {
		t.Errorf("%v; here %t, there %t", err, allowed(here), allowed(there))
	}
	if n, err := store.Clear(here.project); n != 1 || err != nil || allowed(here) {
		t.Errorf("taken back: %d, %v, %t", n, err, allowed(here))
	}
}

// What is decided about hosts reaches the session's record, and a run's events.
func TestDecisionsAreHeard(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"policy": {"network": {"allow": ["10.9.8.7:1"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Environ: []string{"HOME=" + home, "GANDER_HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	w := &wiring{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	refused := func(dial func(context.Context) (net.Conn, error), err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		c, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "CONNECT b.example:22 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 403") {
			t.Fatalf("%q, %v", said, err)
		}
	}

	var recorded []egress.Tally
	door, err := w.openEgress(confine.Way{
		WorkingDir: t.TempDir(), Context: t.Context(), Notice: func(string, string) {},
		Decided: func(t egress.Tally) { recorded = append(recorded, t) },
	})
	refused(door.Dial, err)
	const reason = "no rule of policy.network allows it"
	if want := []egress.Tally{{Decision: egress.Decision{Host: "b.example", Port: 22, Reason: reason}, Times: 1}}; door.Close() != nil || !slices.Equal(recorded, want) {
		t.Errorf("recorded %+v", recorded)
	}

	var said []string
	l := &looping{w: w, ctx: t.Context(), spec: keeper.Spec{Workspace: t.TempDir()}, notice: func(string) {}}
	kept, err := l.openEgress(func(string) {}, func(text string) { said = append(said, text) })
	refused(kept.Dial, err)
	if want := []string{"A connection to b.example:22 was refused: " + reason + "."}; kept.Close() != nil || !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
}

// A program inside cannot fill a session with what is refused to it.
func TestModelNoticesAreBounded(t *testing.T) {
	home := t.TempDir()
	cfg, err := config.Load(config.Options{Environ: []string{"HOME=" + home, "LLM_HOST=http://127.0.0.1:1", "GOOSE_MODEL=m"}})
	if err != nil {
		t.Fatal(err)
	}
	w := &wiring{cfg: cfg, log: slog.New(slog.DiscardHandler), secrets: newSecrets(nil)}
	var told []string
	way := confine.Way{
		Session: "a-session", WorkingDir: t.TempDir(), Agent: "goose", Context: t.Context(),
		Notice: func(_, text string) { told = append(told, text) },
	}
	for range 2 { // an agent that started again
		model, err := w.openModel(way)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return model.Dial(ctx) },
			DisableKeepAlives: true,
		}}
		for i := range noticesInAll {
			res, err := client.Get("http://127.0.0.1/" + strconv.Itoa(i))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(told); n != noticesInAll || !strings.Contains(told[n-1], "/19") || !strings.Contains(told[n-1], "not shown") {
		t.Errorf("%d notices, the last of them %q", n, told[n-1])
	}
	var n modelNotices
	now := time.Now()
	for range 2 * noticesInAll {
		n.bound("a notice", now)
	}
	if got := n.bound("a notice", now.Add(2*noticesTime)); got != "a notice" {
		t.Errorf("later: %q", got)
	}
}

// The configuration knows the presets that there are.
func TestPresetsAreKnown(t *testing.T) {
	field, _ := reflect.TypeFor[policy.Network]().FieldByName("Presets")
	names := strings.Split(field.Tag.Get("enum"), ",")
	if slices.Sort(names); !slices.Equal(names, egress.Presets()) {
		t.Errorf("the configuration takes the presets %q, there are %q", names, egress.Presets())
	}
}

// What a command of gander's own sends out is looked at from the first byte on, and by
// the policy the command ends.
func TestLeaksOfACommand(t *testing.T) {
	for mode, stops := range map[string]bool{"show": false, "stop": true} {
		t.Run(mode, func(t *testing.T) {
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"policy": {"network": {"allow": ["a.invalid"]}, "canaries": "`+mode+`"}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(config.Options{Environ: []string{"GANDER_HOME=" + home}})
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 10)
			a := &app{cfg: cfg, log: slog.New(sayer{slog.DiscardHandler, said})}
			using, stop := context.WithCancel(t.Context())
			doors, done, err := a.egressDoor(using, place{cwd: closedProject(t)}, stop)
			if err != nil || len(doors) != 1 {
				t.Fatalf("%v, %v", doors, err)
			}
			defer done()
			inside := &http.Client{Transport: &http.Transport{
				Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "inside"}),
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return doors[0].Dial(ctx) },
			}}
			defer inside.CloseIdleConnections()
			resp, err := inside.Get("http://a.invalid/?q=" + leakToken)
			if err == nil {
				_ = resp.Body.Close()
			}
			for text := range said {
				if strings.Contains(text, "closed file .env (line 1) was seen in a connection out of the sandbox") {
					break
				}
			}
			if stops {
				<-using.Done()
			} else if using.Err() != nil {
				t.Error("the command was ended")
			}
		})
	}
}

// sayer passes on what is logged.
type sayer struct {
	slog.Handler
	said chan<- string
}

func (s sayer) Enabled(context.Context, slog.Level) bool { return true }

func (s sayer) Handle(_ context.Context, r slog.Record) error {
	select {
	case s.said <- r.Message:
	default: // nobody reads any more
	}
	return nil
}
