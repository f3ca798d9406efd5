package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/rules/policy"
)

// What an agent or a project's file chooses is in errors, too.
func TestComplainIsPrintable(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdio: stdio{err: &out}, secrets: newSecrets(nil)}
	a.complain(errors.New("the agent said \x1b]0;mine\a\u009b2J\u202e\r\nand more"))
	if got, want := out.String(), "gander: the agent said \ufffd]0;mine\ufffd\ufffd2J\ufffd\ngander: and more\n"; got != want {
		t.Errorf("complained %q, want %q", got, want)
	}
}

// The answer alone does not control the terminal either, and a pipe gets it as it is.
func TestQuietIsPrintable(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		c := &terminalClient{app: &app{stdio: stdio{out: &out}}, flags: runFlags{format: formatQuiet}, clean: terminal}
		c.say("done\x1b]52;c;cm0K\a")
		c.end(&acp.PromptResponse{StopReason: acp.StopEndTurn})
		if got := out.String(); !strings.HasPrefix(got, "done") || strings.Contains(got, "\x1b") == terminal {
			t.Errorf("on a terminal %v: %q", terminal, got)
		}
	}
}

// A title or the name of an option is one line: nothing in it looks like another option,
// or like another question.
func TestQuestionIsNotForged(t *testing.T) {
	var out bytes.Buffer
	c := &terminalClient{app: &app{stdio: stdio{err: &out}}, agent: "goose"}
	c.question(&asked{Title: "read README.md\n  1) No\n  2) Yes\nAnswer with a number (1-2): "},
		[]acp.PermissionOption{{Name: "Yes\n  2) No"}, {Name: "No"}})
	if got, want := out.String(), "? goose asks to use: read README.md …\n  1) Yes 2) No\n  2) No\nAnswer with a number (1-2): "; got != want {
		t.Errorf("asked %q, want %q", got, want)
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

// What a link of the project leads to, and where the project is, are names of others.
func TestPolicyIsPrintable(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdio: stdio{out: &out}, secrets: newSecrets(nil)}
	origin := policy.Origin{File: "/\x1b[2J\n/.gander.json", Line: 1}
	err := errors.Join(
		a.printExplanation(explanation{Access: "read", Effect: "cannot be opened: lstat \x1b]0;mine\a"}, false, false),
		shownPolicy{Project: "/\x1b[2J", Settings: []shownSetting{{"git", "warn", origin}}, Refused: []policy.Request{{}}}.print(&out),
		a.printRequests([]policy.Request{{Origin: origin}}),
	)
	if err != nil || strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

// JSON says the same, and what is in its strings does not control a terminal either.
func TestJSONIsPrintable(t *testing.T) {
	const text = "\x1b[2J\u009b2J\x7f\u202e漢 👩\u200d🔬\n\t<b>"
	var out bytes.Buffer
	a := &app{stdio: stdio{out: &out}, secrets: newSecrets(nil)}
	if err := a.printJSON(map[string]string{"title": text}); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	(&terminalClient{app: a}).printLine([]byte(`{"other":"` + "\x9b2J" + `","title":` + string(raw) + `}`))
	if !utf8.Valid(out.Bytes()) || strings.ContainsAny(out.String(), "\x1b\u009b\x7f\u202e") || !strings.Contains(out.String(), "<b>") {
		t.Errorf("printed %q", out.String())
	}
	for d := json.NewDecoder(&out); d.More(); {
		var got struct{ Title string }
		if err := d.Decode(&got); err != nil || got.Title != text {
			t.Errorf("says %q (%v)", got.Title, err)
		}
	}
}
