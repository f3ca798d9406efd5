package router

import (
	"context"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

func TestPlainOutput(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n":                 "plain\n",
		"\x1b[1;31mred\x1b[0m\n":  "red\n",
		" 10%\r 50%\r100%\n":      "100%\n",
		"of Windows\r\nlines\r\n": "of Windows\nlines\n",
		"\x1b]0;title\x07shown":   "shown",
		"\x1b]8;;https://x.example\x1b\\a\x1b]8;;\x1b\\": "a",
		"going |\b/\b-":  "going -",
		"10%\r\x1b[K20%": "20%",
		"half \x1b[3":    "half ",
		"é\r\nü":         "é\nü",
	} {
		if got := plainOutput(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A client that shows no terminals gets the output of commands without orders to one; what is read
// of files stays as it is.
func TestOutputOfCommandsIsPlain(t *testing.T) {
	const red = `\u001b[31mred\u001b[0m\r\n 10%\r100%`
	for kind, plain := range map[string]bool{"execute": true, "read": false} {
		r := newRig(t, nil)
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"do","kind":"` + kind + `","status":"pending"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","rawOutput":{"stdout":"` + red + `","exit_code":0},"content":[{"type":"content","content":{"type":"text","text":"` + red + `"}}]}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		id := r.open(t).SessionID
		r.wantStop(t, id, "go", acp.StopEndTurn)
		said := string(marshal(r.updates(id)))
		if got := !strings.Contains(said, "u001b"); got != plain || !strings.Contains(said, `"exit_code":0`) {
			t.Errorf("%s: %s", kind, said)
		}
		if plain && strings.Count(said, `"red\n100%"`) != 2 {
			t.Errorf("%s: %s", kind, said)
		}
	}
}
