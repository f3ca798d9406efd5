package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":      "plain\ttext\n",
		"\x1b]0;title\x07x":  "\ufffd]0;title\ufffdx",
		"bell\a, \r, \u009b": "bell\ufffd, \ufffd, \ufffd",
		"safe\u202egnp.exe":  "safe\ufffdgnp.exe",
		"👩\u200d🔬 é 漢":       "👩\u200d🔬 é 漢",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
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
		if got := strings.Join(Excerpt(in, 4), "|"); got != want {
			t.Errorf("excerpt(%q) = %q, want %q", in, got, want)
		}
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
	s := NewStream(in, out)
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
	s := NewStream(strings.NewReader("in"), &out)
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
	s := &Signals{End: end, Exit: func(int) { exited++ }}
	s.Deliver(os.Interrupt)
	if ctx.Err() == nil || exited != 0 {
		t.Fatalf("after one signal: %v, %d exits", ctx.Err(), exited)
	}
	taken := s.Take()
	s.Deliver(syscall.SIGTERM)
	if got := <-taken; got != syscall.SIGTERM || exited != 0 {
		t.Fatalf("taken over: %v, %d exits", got, exited)
	}
	s.GiveBack()
	s.Deliver(os.Interrupt)
	if exited != 1 {
		t.Fatal("the second signal does not end gander")
	}
}

func TestSecretsLearn(t *testing.T) {
	s := NewSecrets([]string{"LLM_API_KEY=sk-first-0123456789", "HOME=/home/person"})
	s.Learn([]string{"sk-second-0123456789"})
	if got := s.HideIn("sk-first-0123456789 sk-second-0123456789 /home/person"); got != "[redacted] [redacted] /home/person" {
		t.Errorf("hidden: %q", got)
	}
}

func TestMessageOf(t *testing.T) {
	if got := MessageOf(acp.Internal("it broke", nil)); got != "it broke" {
		t.Errorf("%q", got)
	}
}

// What an agent or a project's file chooses is in errors, too.
func TestComplainIsPrintable(t *testing.T) {
	var out bytes.Buffer
	a := &App{Stdio: Stdio{Err: &out}, Secrets: NewSecrets(nil)}
	a.Complain(errors.New("the agent said \x1b]0;mine\a\u009b2J\u202e\r\nand more"))
	if got, want := out.String(), "gander: the agent said \ufffd]0;mine\ufffd\ufffd2J\ufffd\ngander: and more\n"; got != want {
		t.Errorf("complained %q, want %q", got, want)
	}
}

// A character that comes in pieces is one, what is no character does nothing.
func TestPrintableWriter(t *testing.T) {
	var out bytes.Buffer
	w := &printableWriter{w: &out}
	for _, b := range []byte("# 漢 \x1b[2Jé\x9b👩\u200d🔬\u202e\n") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "# 漢 \ufffd[2Jé\ufffd👩\u200d🔬\ufffd\n"; got != want {
		t.Errorf("written %q, want %q", got, want)
	}
}
