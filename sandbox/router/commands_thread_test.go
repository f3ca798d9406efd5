package router

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gander.dev/gander/acp"
)

// threadRig has a session in which n things were said.
func threadRig(t *testing.T, n int) (*rig, acp.SessionID) {
	t.Helper()
	r := newRig(t, nil)
	s := r.open(t)
	for i := range n {
		r.wantStop(t, s.SessionID, fmt.Sprintf("word%d", i), acp.StopEndTurn)
	}
	return r, s.SessionID
}

// told is what the agent was given with the next prompt.
func (r *rig) told(t *testing.T, id acp.SessionID) string {
	t.Helper()
	r.wantStop(t, id, "next", acp.StopEndTurn)
	prompts := r.agent.conv().prompts()
	return prompts[len(prompts)-1]
}

func TestReset(t *testing.T) {
	r, id := threadRig(t, 2)
	before := r.agent.conv()
	r.wantStop(t, id, "/reset", acp.StopEndTurn)
	if got := r.told(t, id); got != "next" || r.agent.conv() == before {
		t.Errorf("the agent was told %q, the same conversation %v", got, r.agent.conv() == before)
	}
	if said := r.editor.Text(id, acp.AgentMessageChunk); !strings.Contains(said, "nobody is told of the 4 messages so far") {
		t.Errorf("said: %q", said)
	}
}

func TestPrune(t *testing.T) {
	r, id := threadRig(t, 4)
	r.wantStop(t, id, "/prune 2", acp.StopEndTurn)
	got := r.told(t, id)
	if strings.Contains(got, "word2") || !strings.Contains(got, "word3") || !strings.HasSuffix(got, "next") {
		t.Errorf("the agent was told %q", got)
	}
	r.wantStop(t, id, "/prune many", acp.StopEndTurn)
	if said := r.editor.Text(id, acp.AgentMessageChunk); !strings.Contains(said, `is a number, not "many"`) {
		t.Errorf("said: %q", said)
	}
}

func TestCompact(t *testing.T) {
	r, id := threadRig(t, 12)
	r.wantStop(t, id, "/compact", acp.StopEndTurn)
	if said := r.editor.Text(id, acp.AgentMessageChunk); !strings.Contains(said, "goes on with a summary of 4 messages and the last 20 as they are") {
		t.Errorf("said: %q", said)
	}
	got := r.told(t, id)
	for _, word := range []string{"word0", "word11"} { // in the summary, as it was
		if !strings.Contains(got, word) {
			t.Errorf("the agent was not told of %s: %q", word, got)
		}
	}
	r.wantStop(t, id, "/compact", acp.StopEndTurn)
}

// A client that has a place for compactions gets one; others do not.
func TestCompactionUpdate(t *testing.T) {
	for want, capabilities := range []acp.ClientCapabilities{{}, {Session: acp.ClientSessionCapabilities{Compaction: []byte(`{}`)}}} {
		r := newRigFor(t, capabilities, nil)
		id := r.open(t).SessionID
		for range 12 {
			r.wantStop(t, id, "quince", acp.StopEndTurn)
		}
		r.wantStop(t, id, "/compact", acp.StopEndTurn)
		count := func(updates []json.RawMessage) (n int) {
			for _, u := range updates {
				if acp.UpdateKind(u) == "compaction_update" && strings.Contains(string(u), "quince") && strings.Contains(string(u), `"status":"completed"`) {
					n++
				}
			}
			return n
		}
		if got := count(r.editor.Updates(id)); got != want {
			t.Errorf("with %+v there are %d, want %d", capabilities.Session, got, want)
		}
	}
}

func TestExport(t *testing.T) {
	r, id := threadRig(t, 1)
	for args, name := range map[string]string{"": "thread.md", " json": "thread.json"} {
		r.wantStop(t, id, "/export"+args, acp.StopEndTurn)
		file := filepath.Join(r.opts.StateDir, "artifacts", string(id), name)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "word0") {
			t.Errorf("%s: %v, %q", name, err, text)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others: %v", name, info.Mode())
		}
	}
}

// A thread that is exported is not in memory as a whole.
func TestExportOfALongThread(t *testing.T) {
	const each, pieces = 1 << 18, 12
	r, id := threadRig(t, 1)
	r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
		for range pieces {
			c.update(string(acp.MessageChunk(acp.AgentMessageChunk, "", strings.Repeat("x", each))))
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	r.wantStop(t, id, "go on", acp.StopEndTurn)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.wantStop(t, id, "/export json", acp.StopEndTurn)
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) / each; used > 9*pieces { // each piece is decoded, too
		t.Errorf("the export of %d pieces has taken the memory of %d, one time after the other", pieces, used)
	}
}
