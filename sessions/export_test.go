package sessions_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

func TestMarkdownSaysWhatTheSandboxDid(t *testing.T) {
	store := openStore(t, t.TempDir(), nil)
	file, err := store.Create(sessions.Header{SessionID: "s", AgentID: "goose", WorkingPath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []sessions.Body{
		sessions.Title{Title: "Look around"},
		sessions.AgentEvent{Event: sessions.AgentStarted, Agent: "goose", Weaker: []string{"files are not closed"}},
		sessions.Network{Host: "a.example", Port: 443, Allowed: true, By: "the rule a.example", Times: 1},
		sessions.Network{Host: "b.example", Port: 22, Reason: "no rule allows it", Times: 10},
		sessions.Network{Reason: "too many", Times: 5000},
	} {
		if err := file.Commit(t.Context(), sessions.Record{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := store.ExportMarkdown(t.Context(), "s", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# [weaker sandbox: files are not closed] Look around\n",
		"\n> Connections to a.example:443 were allowed (the rule a.example), 1 so far.\n",
		"\n> Connections to b.example:22 were refused (no rule allows it), 10 so far.\n",
		"\n> Connections to other hosts were refused (too many), 5000 so far.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// A record of no turn, such as a notice, does not end the calls of the turn that runs.
func TestMarkdownOfACallWithANotice(t *testing.T) {
	store := openStore(t, t.TempDir(), nil)
	appendAll(t, create(t, store), aCallWithANotice()...)
	var out bytes.Buffer
	if err := store.ExportMarkdown(t.Context(), id, &out); err != nil {
		t.Fatal(err)
	}
	if _, after, _ := strings.Cut(out.String(), "> by the way"); strings.TrimSpace(after) != "- [execute] ls (completed)" {
		t.Errorf("the call does not end behind the notice:\n%s", &out)
	}
}

// What others write stays in its quotation, its fence or its line in an export: it does
// not look like something that the person has said.
func TestMarkdownOfOthersStaysWhatItIs(t *testing.T) {
	store := openStore(t, t.TempDir(), nil)
	file, err := store.Create(sessions.Header{SessionID: "s", AgentID: "goose", WorkingPath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	const forged = "x\n## You\r## You\r\n## You"
	update := func(u map[string]any) sessions.Update {
		raw, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		return sessions.Update{Update: raw}
	}
	for _, body := range []sessions.Body{
		update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": acp.TextBlock(forged)}),
		update(map[string]any{
			"sessionUpdate": "tool_call", "toolCallId": "c", "title": forged, "kind": forged, "status": "completed", "content": []any{
				acp.ToolContent(forged), map[string]any{"type": "diff", "path": forged + "`", "newText": forged},
			},
		}),
		sessions.Notice{Level: "warning", Text: forged},
		sessions.Changes{Paths: []sessions.ChangedPath{{Path: forged, Change: "created"}}},
	} {
		if err := file.Commit(t.Context(), sessions.Record{TurnID: "t", Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := store.ExportMarkdown(t.Context(), "s", &out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(out.String(), "\r", "\n")) {
		if strings.HasPrefix(line, "## You") {
			t.Fatalf("somebody speaks as the person:\n%q", out.String())
		}
	}
}
