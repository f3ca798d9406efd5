package router

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
)

// play has an agent send updates in one turn in /project and returns what the
// client got of each kind that is not a chunk.
func play(t *testing.T, capabilities acp.ClientCapabilities, updates ...string) (cwd string, got []map[string]any) {
	t.Helper()
	r := newRigFor(t, capabilities, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			for _, u := range updates {
				c.update(u)
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	cwd = t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	for _, raw := range r.updates(s.SessionID) {
		var u map[string]any
		if err := json.Unmarshal(raw, &u); err != nil {
			t.Fatal(err)
		}
		got = append(got, u)
	}
	return cwd, got
}

// object decodes JSON in which CWD stands for a directory.
func object(t *testing.T, cwd, raw string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(raw, "CWD", cwd)), &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

func TestUpdatesPassUnchanged(t *testing.T) {
	updates := []string{
		`{"sessionUpdate":"agent_message_chunk","messageId":"1","content":{"type":"text","text":"hi"},"_meta":{"x":1}}`,
		`{"sessionUpdate":"novelty","deep":{"er":[1,2.50,"three"]},"_meta":{"y":null}}`,
		`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending","extra":true}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","rawOutput":{"big":123456789012345678901234567890}}`,
		`{"sessionUpdate":"tool_call","title":"an id is missing"}`,
		`{"sessionUpdate":"tool_call","toolCallId":7}`,
	}
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			for _, u := range updates {
				c.update(u)
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	var got []string
	for _, u := range r.updates(s.SessionID) {
		got = append(got, string(u))
	}
	if diff := cmp.Diff(updates, got); diff != "" {
		t.Errorf("updates (-sent +got):\n%s", diff)
	}
}

func TestPathsAreMadeAbsolute(t *testing.T) {
	cwd, got := play(t, acp.ClientCapabilities{},
		`{"sessionUpdate":"tool_call","toolCallId":"t","title":"edit","locations":[{"path":"src/a.go","line":3,"x":1},{"path":"/etc/hosts"}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"diff","path":"../b.go","oldText":null,"newText":"n"},{"type":"content","content":{"type":"text","text":"ok"}}]}`,
	)
	want := []map[string]any{
		object(t, cwd, `{"sessionUpdate":"tool_call","toolCallId":"t","title":"edit","locations":[{"path":"CWD/src/a.go","line":3,"x":1},{"path":"/etc/hosts"}]}`),
		object(t, cwd[:strings.LastIndexByte(cwd, '/')], `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"diff","path":"CWD/b.go","oldText":null,"newText":"n"},{"type":"content","content":{"type":"text","text":"ok"}}]}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

// callsOf are the tool calls that a client got, each update as its id, title and status.
func callsOf(updates []json.RawMessage) (got []string) {
	for _, raw := range updates {
		u := readToolUpdate(raw)
		if u.ToolCallID != "" {
			got = append(got, strings.Join(strings.Fields(strings.Join([]string{u.ToolCallID, stringOf(u.title), u.Status}, " ")), " "))
		}
	}
	return got
}

// A tool call's id is its own in the whole session, although some models have one for all
// calls; questions have the same id. acp.md 7: toolCallId is unique per session.
func TestToolCallIDsAreUsedOnce(t *testing.T) {
	turn := func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
		for _, name := range []string{"one", "two"} {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"0","title":"` + name + `","kind":"execute","rawInput":{"command":"ls"}}`)
			c.ask(t.Context(), `{"toolCallId":"0","title":"`+name+`"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"0","status":"completed"}`)
		}
		return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
	}
	zed := acp.ClientCapabilities{Meta: map[string]json.RawMessage{"terminal_output": []byte("true")}}
	r := newRigFor(t, zed, func(r *rig) { r.agent.onTurn = turn })
	cwd := t.TempDir()
	s := r.editor.NewSession(t, cwd)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	wantPairs := func(updates []json.RawMessage, asked []acp.RequestPermissionRequest, want int) {
		t.Helper()
		calls, ids := callsOf(updates), map[string]bool{}
		if len(calls) != 2*want || len(asked) != want {
			t.Fatalf("%d updates and %d questions of %d calls: %q", len(calls), len(asked), want, calls)
		}
		for i := 0; i < len(calls); i += 2 {
			id, _, _ := strings.Cut(calls[i], " ")
			if ids[id] || calls[i+1] != id+" completed" {
				t.Errorf("the call %q and its end %q", calls[i], calls[i+1])
			}
			if got := readToolUpdate(asked[i/2].ToolCall).ToolCallID; got != id {
				t.Errorf("the question is about %q, the call is %q", got, id)
			}
			ids[id] = true
		}
	}
	wantPairs(r.updates(s.SessionID), r.editor.Asked(), 4)

	if _, err := r.editor.Conn.CloseSession(t.Context(), &acp.CloseSessionRequest{SessionID: s.SessionID}); err != nil {
		t.Fatal(err)
	}
	next := r.again(t, zed, func(r *rig) { r.agent.onTurn = turn })
	next.load(t, s.SessionID, cwd)
	next.wantStop(t, s.SessionID, "z", acp.StopEndTurn)
	ids := map[string]int{}
	for _, raw := range next.editor.Updates(s.SessionID) {
		if u := readToolUpdate(raw); acp.UpdateKind(raw) == "tool_call" {
			ids[u.ToolCallID]++
		}
	}
	if len(ids) != 6 {
		t.Errorf("the calls of the thread and of the turn after it: %v", ids)
	}
}

// What an agent says of a call that has ended does not open it again: at the end of the
// turn one that has failed would be told as completed, with the output that it had so far.
func TestUpdateOfAnEndedToolCall(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"a","status":"pending"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"b"}`)
			c.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"c","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"so far"}}]}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if diff := cmp.Diff([]string{"t a pending", "t failed", "t b"}, callsOf(r.updates(s.SessionID))); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

// Clients that draw terminals get commands as such.
func TestTerminals(t *testing.T) {
	const (
		call   = `{"sessionUpdate":"tool_call","toolCallId":"t","title":"shell","kind":"execute","status":"pending","_meta":{"own":1}}`
		live   = `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"1\n"}}],"_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"1"},{"output":"\n"}]}}}}`
		final  = `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","content":[{"type":"content","content":{"type":"text","text":"1\nCommand exited with code 3"}}],"rawOutput":{"exit_code":3}}`
		opened = `{"sessionUpdate":"tool_call","toolCallId":"t","title":"shell","kind":"execute","status":"pending","content":[{"type":"terminal","terminalId":"t"}],"_meta":{"own":1,"terminal_info":{"terminal_id":"t","cwd":"CWD"}}}`
	)
	zed := acp.ClientCapabilities{Meta: map[string]json.RawMessage{"terminal_output": []byte("true")}}
	tests := map[string]struct {
		capabilities acp.ClientCapabilities
		updates      []string
		want         []string
	}{
		"with live output": {zed, []string{call, live, final}, []string{
			opened,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"1"},{"output":"\n"}]}},"terminal_output":{"terminal_id":"t","data":"1\n"}}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","content":[{"type":"terminal","terminalId":"t"}],"rawOutput":{"exit_code":3},"_meta":{"terminal_exit":{"terminal_id":"t","exit_code":3,"signal":null}}}`,
		}},
		"the rest at the end": {zed, []string{call, live, strings.Replace(final, `"rawOutput"`, `"_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"rest"}]}}},"rawOutput"`, 1)}, []string{
			opened,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"1"},{"output":"\n"}]}},"terminal_output":{"terminal_id":"t","data":"1\n"}}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","content":[{"type":"terminal","terminalId":"t"}],"rawOutput":{"exit_code":3},"_meta":{"toolNotification":{"type":"live_output","params":{"chunks":[{"output":"rest"}]}},"terminal_output":{"terminal_id":"t","data":"rest"},"terminal_exit":{"terminal_id":"t","exit_code":3,"signal":null}}}`,
		}},
		"all at the end": {zed, []string{call, final}, []string{
			opened,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed","content":[{"type":"terminal","terminalId":"t"}],"rawOutput":{"exit_code":3},"_meta":{"terminal_output":{"terminal_id":"t","data":"1\nCommand exited with code 3"},"terminal_exit":{"terminal_id":"t","exit_code":3,"signal":null}}}`,
		}},
		"left open": {zed, []string{call}, []string{
			opened,
			`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","content":[{"type":"terminal","terminalId":"t"}],"_meta":{"terminal_output":{"terminal_id":"t","data":""},"terminal_exit":{"terminal_id":"t","exit_code":0,"signal":null}}}`,
		}},
		"for other clients": {acp.ClientCapabilities{}, []string{call, live, final}, []string{call, live, final}},
		"not a command":     {zed, []string{strings.Replace(call, "execute", "read", 1), final}, []string{strings.Replace(call, "execute", "read", 1), final}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cwd, got := play(t, tt.capabilities, tt.updates...)
			var want []map[string]any
			for _, w := range tt.want {
				want = append(want, object(t, cwd, w))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPermissionIsThePersons(t *testing.T) {
	outcome := func(o, id string) func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
		return func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
			return &acp.RequestPermissionResponse{Outcome: acp.PermissionOutcome{Outcome: o, OptionID: id}}, nil
		}
	}
	tests := map[string]struct {
		answer func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error)
		want   string
	}{
		"allowed":           {outcome("selected", "yes"), "selected yes"},
		"rejected":          {outcome("selected", "no"), "selected no"},
		"cancelled":         {outcome("cancelled", ""), "cancelled "},
		"an unknown option": {outcome("selected", "always-everything"), "cancelled "},
		"an unknown answer": {outcome("granted", "yes"), "cancelled "},
		"an error": {func(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
			return nil, acp.Internal("oops", nil)
		}, "cancelled "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			r := newRig(t, func(r *rig) {
				r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
					got = c.ask(ctx, `{"toolCallId":"t","title":"x"}`)
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			r.editor.Permission = tt.answer
			s := r.open(t)
			r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
			if got != tt.want {
				t.Errorf("the agent was answered %q, want %q", got, tt.want)
			}
			asked := r.editor.Asked()[0]
			if asked.SessionID != s.SessionID || len(asked.Options) != 2 || !cmp.Equal(asked.Options[0], acp.PermissionOption{OptionID: "yes", Name: "Yes", Kind: "allow_once"}) {
				t.Errorf("asked %+v", asked)
			}
		})
	}
}

func TestPermissionOutsideOfATurn(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if got := r.agent.conv().ask(t.Context(), `{"toolCallId":"t"}`); got != "cancelled " || len(r.editor.Asked()) != 0 {
		t.Errorf("answered %q, asked %v", got, r.editor.Asked())
	}
}

// A person sees what is to run, and where.
func TestPermissionShowsCommandAndDirectory(t *testing.T) {
	tests := map[string]struct{ call, question, want string }{
		"a command": {
			`{"sessionUpdate":"tool_call","toolCallId":"t","title":"shell · make","kind":"execute"}`,
			`{"toolCallId":"t","title":"shell · make","kind":"other","rawInput":{"command":"make all"}}`,
			`{"toolCallId":"t","title":"make all   (in CWD)","kind":"execute","rawInput":{"command":"make all"},"content":[{"type":"content","content":{"type":"text","text":"make all"}}]}`,
		},
		"several lines elsewhere": {
			"",
			`{"toolCallId":"t","rawInput":{"command":"\nset -e\nmake","cwd":"/tmp"}}`,
			`{"toolCallId":"t","title":"set -e …   (in /tmp)","rawInput":{"command":"\nset -e\nmake","cwd":"/tmp"},"content":[{"type":"content","content":{"type":"text","text":"set -e\nmake"}}]}`,
		},
		"an edit": {
			"",
			`{"toolCallId":"t","title":"write a.go","content":[{"type":"diff","path":"a.go","newText":"x"}]}`,
			`{"toolCallId":"t","title":"write a.go   (in CWD)","content":[{"type":"diff","path":"CWD/a.go","newText":"x"}]}`,
		},
		"an odd command":  {"", `{"toolCallId":"t","title":"run","rawInput":{"command":["a","b"]}}`, `{"toolCallId":"t","title":"run   (in CWD)","rawInput":{"command":["a","b"]}}`},
		"nothing to tell": {"", `{"toolCallId":"t"}`, `{"toolCallId":"t"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
					if tt.call != "" {
						c.update(tt.call)
					}
					c.ask(ctx, tt.question)
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			cwd := t.TempDir()
			r.wantStop(t, r.editor.NewSession(t, cwd).SessionID, "x", acp.StopEndTurn)
			if diff := cmp.Diff(object(t, cwd, tt.want), object(t, cwd, string(r.editor.Asked()[0].ToolCall))); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
		})
	}
}

// A transcript that cannot be written is said once; the session goes on.
func TestTranscriptThatCannotBeWritten(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	session, err := r.router.session(s.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	_ = session.transcript.Close()
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	r.wantStop(t, s.SessionID, "z", acp.StopEndTurn)
	if n := strings.Count(r.editor.Text(s.SessionID, acp.AgentThoughtChunk), "is not being recorded any more"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestNoticesThatWaitAreBounded(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	for i := range 2 * maxPending {
		r.model().notice("warning", fmt.Sprintf("notice %d.", i))
	}
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	text := r.editor.Text(s.SessionID, acp.AgentThoughtChunk)
	if n := strings.Count(text, "notice "); n != maxPending || !strings.Contains(text, fmt.Sprintf("notice %d.", 2*maxPending-1)) {
		t.Errorf("%d notices were shown, want the last %d: %s", n, maxPending, text)
	}
}

// BenchmarkRelay is what an update costs from the agent's end to an editor in
// memory, the transcript included.
func BenchmarkRelay(b *testing.B) {
	for name, raw := range map[string]string{
		"chunk": string(acp.MessageChunk(acp.AgentMessageChunk, "chatcmpl-1", "a few words of text")),
		"tool":  `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"output"}}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, func(r *rig) {
				r.quiet = true
				r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
					b.ResetTimer()
					b.ReportAllocs()
					for range b.N {
						c.update(raw)
					}
					b.StopTimer()
					return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
				}
			})
			s := r.editor.NewSession(b, b.TempDir())
			if _, err := r.editor.Prompt(b.Context(), s.SessionID, "x"); err != nil {
				b.Fatal(err)
			}
		})
	}
}
