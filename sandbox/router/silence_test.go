package router

import (
	"context"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/acp"
)

// A turn of which nothing comes says who is waited for, in one notice that grows and ends when
// something comes; what is asked of the person is no silence.
func TestSilence(t *testing.T) {
	on := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.opts.Silence = 20 * time.Millisecond
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"build","kind":"execute","status":"in_progress"}`)
			<-on
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`)
			c.say("built")
			<-on
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	reply := r.prompt(t, id, "build")
	r.editor.Wait(t, "the notice to grow", func() bool {
		return strings.Count(r.said(id), "Waiting for the tool build since ") >= 3
	})
	if said := r.said(id); strings.Count(said, `"tool_call","toolCallId":"gander-silence`)+strings.Count(said, `"toolCallId":"gander-silence`) < 3 || strings.Count(said, `"kind":"other"`) != 1 {
		t.Errorf("it is not one notice: %s", said)
	}
	on <- struct{}{}
	r.editor.Wait(t, "who is waited for next", func() bool { return strings.Contains(r.said(id), "Waiting for "+r.agent.Name()+" since ") })
	if !strings.Contains(r.said(id), "Waited, and it went on") {
		t.Errorf("the notice does not end: %s", r.said(id))
	}
	on <- struct{}{}
	if got := <-reply; got.stop != acp.StopEndTurn {
		t.Errorf("the turn ends with %+v", got)
	}
	if !strings.Contains(r.said(id), "Waited for what has ended") {
		t.Errorf("the notice is open: %s", r.said(id))
	}
}

// TestServerOfTool finds the server of a tool by the names that agents give it.
func TestServerOfTool(t *testing.T) {
	m := &servers{}
	for _, name := range []string{"db", "db_main", "My Files"} {
		v := new(server)
		v.Name = name
		m.all = append(m.all, v)
	}
	for tool, want := range map[string]string{
		"db/query": "db", "db__query": "db", "db_main_query": "db_main", "my_files_read": "My Files", "developer/shell": "", "db": "", "dbs_query": "", "bash": "",
	} {
		got := ""
		if v := m.ofTool(tool); v != nil {
			got = v.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
}
