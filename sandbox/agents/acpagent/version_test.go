package acpagent

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
)

// An agent of another version than the tested one is told of, but for the last part of it.
func TestVersionNotice(t *testing.T) {
	for version, want := range map[string]bool{"": false, "1.18.33": false, "1.18.40": false, "1.19.0": true, "2.0.1": true, "local": true} {
		s := &Session{opts: Options{Name: "duck", Tested: "1.18.33"}}
		if got := s.versionNotice(&acp.Implementation{Name: "duck", Version: version}); (got != "") != want {
			t.Errorf("%q: %q", version, got)
		}
	}
	untested := &Session{opts: Options{Name: "duck"}}
	if got := untested.versionNotice(&acp.Implementation{Version: "9"}) + untested.versionNotice(nil); got != "" {
		t.Errorf("of an agent that gander does not bring it says %q", got)
	}
}

// An agent that speaks another version of the protocol is refused in one sentence.
func TestAgentOfANewerProtocol(t *testing.T) {
	proc := newProcess(t)
	go func() {
		lines := bufio.NewScanner(proc.agent)
		if lines.Scan() {
			_, _ = io.WriteString(proc.agent, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"agentCapabilities":{}}}`+"\n")
		}
	}()
	_, err := openIn(t, &box{process: proc}, sandbox.SessionParams{}, Options{})
	if err == nil || !strings.Contains(err.Error(), "it speaks version 2 of ACP, and gander version 1: install a version of duck that speaks that one") {
		t.Errorf("got %v", err)
	}
}

// A client's instructions are given to an agent with its session where it takes a system prompt,
// and else in front of its first prompt, of which the person is told.
func TestSystemPromptOfTheClient(t *testing.T) {
	for _, takes := range []bool{true, false} {
		var asked *acp.SystemPrompt
		var prompts []string
		agent := fakeAgent()
		if takes {
			agent.Capabilities.SessionCapabilities.SystemPrompt = &acp.Supported{}
		}
		agent.OnNewSession = func(_ context.Context, req *acp.NewSessionRequest) (*acp.NewSessionResponse, error) {
			asked = req.SystemPrompt
			return &acp.NewSessionResponse{}, nil
		}
		agent.OnPrompt = func(_ context.Context, _ *acp.ClientConn, req *acp.PromptRequest) (*acp.PromptResponse, error) {
			prompts = append(prompts, string(slices.Concat(req.Prompt...)))
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
		s, _ := mustOpen(t, agent, sandbox.SessionParams{SystemPrompt: "be brief"}, Options{})
		for range 2 {
			if _, err := prompt(t, s, "x"); err != nil {
				t.Fatal(err)
			}
		}
		notices := strings.Join(s.State().Notices, "\n")
		if takes && (asked == nil || strings.Contains(prompts[0], "brief") || notices != "") {
			t.Errorf("an agent that takes one got %v and %q; %q is said", asked, prompts, notices)
		}
		if !takes && (asked != nil || !strings.Contains(prompts[0], "brief") || strings.Contains(prompts[1], "brief") || !strings.Contains(notices, "in front of the first prompt")) {
			t.Errorf("an agent that takes none got %v and %q; %q is said", asked, prompts, notices)
		}
	}
}
