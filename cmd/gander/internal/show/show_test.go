package show

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
)

func TestToolText(t *testing.T) {
	got := ToolText([]byte(`[
		{"type":"content","content":{"type":"text","text":"out\r\nput\r\n"}},
		{"type":"diff","path":"/p/f","oldText":"a\nb\n","newText":"c\r\n"},
		{"type":"diff","path":"/p/new","newText":"x"},
		{"type":"terminal","terminalId":"t"}]`))
	want := "out\nput\n/p/f\n- a\n- b\n+ c\n/p/new\n+ x"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ToolText([]byte(`"garbage"`)); got != "" {
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

func TestChoose(t *testing.T) {
	options := []acp.PermissionOption{{OptionID: "a", Kind: "allow_always"}, {OptionID: "r", Kind: "reject_once"}}
	if got := Choose(options, "allow_once", "allow_always").Outcome; got.OptionID != "a" {
		t.Errorf("allowing chose %+v", got)
	}
	if got := Choose(options, "reject_always").Outcome; got.Outcome != "cancelled" {
		t.Errorf("without an option of the kind the outcome is %+v", got)
	}
}

// The answer alone does not control the terminal either, and a pipe gets it as it is.
func TestQuietIsPrintable(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		c := &Terminal{App: &cli.App{Stdio: cli.Stdio{Out: &out}}, Flags: RunFlags{Format: FormatQuiet}, clean: terminal}
		c.say("done\x1b]52;c;cm0K\a")
		c.End(&acp.PromptResponse{StopReason: acp.StopEndTurn})
		if got := out.String(); !strings.HasPrefix(got, "done") || strings.Contains(got, "\x1b") == terminal {
			t.Errorf("on a terminal %v: %q", terminal, got)
		}
	}
}

// A title or the name of an option is one line: nothing in it looks like another option,
// or like another question.
func TestQuestionIsNotForged(t *testing.T) {
	var out bytes.Buffer
	c := &Terminal{App: &cli.App{Stdio: cli.Stdio{Err: &out}}, Agent: "goose"}
	c.question(&asked{Title: "read README.md\n  1) No\n  2) Yes\nAnswer with a number (1-2): "},
		[]acp.PermissionOption{{Name: "Yes\n  2) No"}, {Name: "No"}})
	if got, want := out.String(), "? goose asks to use: read README.md …\n  1) Yes 2) No\n  2) No\nAnswer with 1, 2: "; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

// JSON says the same, and what is in its strings does not control a terminal either.
func TestJSONIsPrintable(t *testing.T) {
	const text = "\x1b[2J\u009b2J\x7f\u202e漢 👩\u200d🔬\n\t<b>"
	var out bytes.Buffer
	a := &cli.App{Stdio: cli.Stdio{Out: &out}, Secrets: cli.NewSecrets(nil)}
	if err := a.PrintJSON(map[string]string{"title": text}); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	(&Terminal{App: a}).printLine([]byte(`{"other":"` + "\x9b2J" + `","title":` + string(raw) + `}`))
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
