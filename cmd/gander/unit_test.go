package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/registry"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":      "plain\ttext\n",
		"\x1b]0;title\x07x":  "\ufffd]0;title\ufffdx",
		"bell\a, \r, \u009b": "bell\ufffd, \ufffd, \ufffd",
		"safe\u202egnp.exe":  "safe\ufffdgnp.exe",
		"👩\u200d🔬 é 漢":       "👩\u200d🔬 é 漢",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestUnkept(t *testing.T) {
	for system, said := range map[string]bool{"linux": false, "darwin": false, "windows": true} {
		if got := unkept(system); (got != "") != said {
			t.Errorf("on %s it is said that %q", system, got)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		"":              "",
		" \n":           "",
		"a":             "a",
		"a\nb\nc\nd":    "a|b|c|d",
		"a\nb\nc\nd\ne": "a|b|… 2 more lines …|e",
	} {
		if got := strings.Join(excerpt(in, 4), "|"); got != want {
			t.Errorf("excerpt(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestToolText(t *testing.T) {
	got := toolText([]byte(`[
		{"type":"content","content":{"type":"text","text":"out\r\nput\r\n"}},
		{"type":"diff","path":"/p/f","oldText":"a\nb\n","newText":"c\r\n"},
		{"type":"diff","path":"/p/new","newText":"x"},
		{"type":"terminal","terminalId":"t"}]`))
	want := "out\nput\n/p/f\n- a\n- b\n+ c\n/p/new\n+ x"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := toolText([]byte(`"garbage"`)); got != "" {
		t.Errorf("garbage shows as %q", got)
	}
}

// The answer is what comes after the last tool call, if anything does.
func TestAnswerText(t *testing.T) {
	for _, tt := range []struct {
		name, said, want string // "|" is a tool call
	}{
		{"only words", "hello", "hello"},
		{"words around a call", "let me see|done", "done"},
		{"nothing after the call", "here it is|", "here it is"},
		{"only space after the call", "here it is|\n", "here it is\n"},
		{"two calls in a row", "a|b||c", "c"},
	} {
		var answer answerText
		for c := range strings.SplitSeq(tt.said, "") {
			if c == "|" {
				answer.pause()
				continue
			}
			answer.add(c)
		}
		if got := answer.last(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestProxyOf(t *testing.T) {
	environ := []string{"HTTPS_PROXY=http://secure:1", "http_proxy=http://plain:2", "NO_PROXY=internal.example"}
	for url, want := range map[string]string{
		"https://api.example.com/v1": "http://secure:1",
		"http://api.example.com/v1":  "http://plain:2",
		"https://internal.example":   "",
		"http://127.0.0.1:8080":      "",
		"http://localhost:8080":      "",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := proxyOf(environ)(req)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if proxy != nil {
			got = proxy.String()
		}
		if got != want {
			t.Errorf("%s goes through %q, want %q", url, got, want)
		}
	}
}

func TestStopErrors(t *testing.T) {
	for reason, bad := range map[acp.StopReason]bool{
		acp.StopEndTurn: false, acp.StopMaxTokens: true, acp.StopMaxTurnRequests: true, acp.StopRefusal: true,
	} {
		if got := stopError(reason) != nil; got != bad {
			t.Errorf("%s: an error is %v", reason, got)
		}
	}
}

func TestChoose(t *testing.T) {
	options := []acp.PermissionOption{{OptionID: "a", Kind: "allow_always"}, {OptionID: "r", Kind: "reject_once"}}
	if got := choose(options, "allow_once", "allow_always").Outcome; got.OptionID != "a" {
		t.Errorf("allowing chose %+v", got)
	}
	if got := choose(options, "reject_always").Outcome; got.Outcome != "cancelled" {
		t.Errorf("without an option of the kind the outcome is %+v", got)
	}
}

// Close ends a Read and a Write that nothing else would end.
func TestStreamClose(t *testing.T) {
	in, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(in, out)
	errs := make(chan error, 2)
	go func() { _, err := s.Read(make([]byte, 1)); errs <- err }()
	go func() { _, err := s.Write(make([]byte, 1<<20)); errs <- err }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-errs:
			if err == nil {
				t.Error("no error after Close")
			}
		case <-time.After(30 * time.Second):
			t.Fatal("Close interrupts nothing")
		}
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing after Close: %v", err)
	}
}

func TestStreamCarries(t *testing.T) {
	var out bytes.Buffer
	s := newStream(strings.NewReader("in"), &out)
	defer s.Close()
	got, err := io.ReadAll(s)
	if err != nil || string(got) != "in" {
		t.Errorf("read %q, %v", got, err)
	}
	if n, err := s.Write([]byte("out")); n != 3 || err != nil || out.String() != "out" {
		t.Errorf("wrote %d, %v, %q", n, err, out.String())
	}
}

// The first signal ends the context, the second gander; whoever takes them over gets them all.
func TestSignals(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	exited := 0
	s := &signals{end: end, exit: func(int) { exited++ }}
	s.deliver(os.Interrupt)
	if ctx.Err() == nil || exited != 0 {
		t.Fatalf("after one signal: %v, %d exits", ctx.Err(), exited)
	}
	taken := s.take()
	s.deliver(syscall.SIGTERM)
	if got := <-taken; got != syscall.SIGTERM || exited != 0 {
		t.Fatalf("taken over: %v, %d exits", got, exited)
	}
	s.giveBack()
	s.deliver(os.Interrupt)
	if exited != 1 {
		t.Fatal("the second signal does not end gander")
	}
}

// A demo that shows a broken promise says so and fails.
func TestDemoVerdict(t *testing.T) {
	var out bytes.Buffer
	s := &stage{out: &out}
	s.promise(true, "held")
	s.noPromise("not here")
	if err := s.verdict(); err != nil || !strings.Contains(out.String(), "✓ held\n  – not here") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	s.promise(false, "broken")
	out.Reset()
	if err := s.verdict(); err == nil || !strings.Contains(out.String(), "✗ BROKEN: broken") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestSecretsLearn(t *testing.T) {
	s := newSecrets([]string{"LLM_API_KEY=sk-first-0123456789", "HOME=/home/person"})
	s.learn([]string{"sk-second-0123456789"})
	if got := s.hideIn("sk-first-0123456789 sk-second-0123456789 /home/person"); got != "[redacted] [redacted] /home/person" {
		t.Errorf("hidden: %q", got)
	}
}

func TestMessageOf(t *testing.T) {
	if got := messageOf(acp.Internal("it broke", nil)); got != "it broke" {
		t.Errorf("%q", got)
	}
}

// A sandbox shows an agent's program, and not what happens to lie beside it.
func TestProgramMount(t *testing.T) {
	for program, want := range map[string]string{
		"/a/x":                            "/a/x",
		"/a/node_modules/p/bin/x":         "/a/node_modules/p",
		"/a/node_modules/@s/q/bin/deep/x": "/a/node_modules/@s/q",
		"/a/node_modules/p/node_modules/@s/q/bin/x": "/a/node_modules/p/node_modules/@s/q",
		"/a/node_modules/x":                         "/a/node_modules/x",
		"/a/node_modules/@s/x":                      "/a/node_modules/@s/x",
	} {
		got := programMount(program)
		if len(got) != 1 || got[0].Path != want || got[0].Writable {
			t.Errorf("%s is shown by %+v, want %s read-only", program, got, want)
		}
	}
	if got := programMount("relative"); got != nil {
		t.Errorf("a program in PATH is shown by %+v", got)
	}
}

func TestOutermost(t *testing.T) {
	mounts := []sandbox.Mount{{Path: "/a/b/c"}, {Path: "/a/b"}, {Path: "/a/bc"}, {Path: "/a/b"}, {Path: "/shown/x"}, {Path: "/shown"}}
	want := []sandbox.Mount{{Path: "/a/b"}, {Path: "/a/bc"}}
	if diff := cmp.Diff(want, outermost(mounts, []string{"/shown"})); diff != "" {
		t.Error(diff)
	}
}

// Files are not put back while a sandbox runs that could move them; those that have
// ended, work elsewhere, or do not isolate are no hindrance.
func TestCheckIdle(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	self := registry.Self()
	for name, tt := range map[string]struct {
		record registry.Record
		idle   bool
	}{
		"in the project":  {registry.Record{Driver: "local", WorkingDir: root, Owner: self, Supervisor: self.Host}, false},
		"below":           {registry.Record{Driver: "local", WorkingDir: root + "/a/b", Owner: self, Supervisor: self.Host}, false},
		"above":           {registry.Record{Driver: "local", WorkingDir: filepath.Dir(root), Owner: self, Supervisor: self.Host}, false},
		"in a container":  {registry.Record{Driver: "docker", WorkingDir: root, Owner: self, Container: "c"}, false},
		"elsewhere":       {registry.Record{Driver: "local", WorkingDir: elsewhere, Owner: self, Supervisor: self.Host}, true},
		"of another name": {registry.Record{Driver: "local", WorkingDir: root + "2", Owner: self, Supervisor: self.Host}, true},
		"not isolated":    {registry.Record{Driver: "off", WorkingDir: root, Owner: self, Supervisor: self.Host}, true},
		"ended":           {registry.Record{Driver: "local", WorkingDir: root, Owner: self, Supervisor: registry.ProcessRef{PID: 1, Start: 1 << 60}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{cfg: &config.Config{Home: t.TempDir()}}
			tt.record.ID = "x"
			if _, err := registry.Register(a.cfg.Home, tt.record); err != nil {
				t.Fatal(err)
			}
			if err := a.checkIdle(root); (err == nil) != tt.idle {
				t.Errorf("got %v", err)
			}
		})
	}
}
