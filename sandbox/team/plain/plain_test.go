package plain_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/team/plain"
)

// person takes what an agent shows.
type person struct {
	sandbox.AgentSession
	model *model.Server

	// mu guards what follows.
	mu    sync.Mutex
	kinds []string
	said  string
	usage string
	heard chan struct{} // is told of the first words of a turn
}

func (p *person) SessionUpdate(_ context.Context, n *acp.SessionNotification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := string(acp.UpdateKind(n.Update))
	if !slices.Contains(p.kinds, kind) {
		p.kinds = append(p.kinds, kind)
	}
	switch kind {
	case "agent_message_chunk":
		p.said += acp.ParseContentBlock(acp.Member(n.Update, "content")).Text
		select {
		case p.heard <- struct{}{}:
		default:
		}
	case "usage_update":
		p.usage = string(n.Update)
	}
	return nil
}

func (p *person) RequestPermission(context.Context, *acp.RequestPermissionRequest) (*acp.RequestPermissionResponse, error) {
	return nil, errors.New("an agent that only talks asks for nothing")
}

// opened returns a conversation with an agent over a scripted model.
func opened(t *testing.T, s plain.Settings, params sandbox.SessionParams) *person {
	t.Helper()
	p := &person{model: model.New(model.Options{Key: "token"}), heard: make(chan struct{}, 1)}
	server := httptest.NewServer(p.model)
	t.Cleanup(func() { _ = p.model.Close(); server.Close() })
	params.Client, params.ModelToken = p, "token"
	a := plain.New("poet", func() (plain.Settings, error) { return s, nil })
	conv, err := a.OpenHosted(t.Context(), sandbox.HostedParams{
		SessionParams: params,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		Turn: func() string { return "turn" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conv.Close() })
	p.AgentSession = conv
	return p
}

// ask runs a turn in which the model follows a script, and returns what the agent said.
func (p *person) ask(ctx context.Context, script string) (string, *acp.PromptResponse, error) {
	p.mu.Lock()
	p.kinds, p.said, p.usage = nil, "", ""
	p.mu.Unlock()
	resp, err := p.Prompt(ctx, []acp.ContentBlock{acp.TextBlock("please " + model.Embed(script))})
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said, resp, err
}

// told returns what the model was told last, message by message.
func (p *person) told() (messages []string) {
	all := p.model.Requests()
	for _, m := range all[len(all)-1].Messages {
		messages = append(messages, m.Role+": "+m.Content)
	}
	return messages
}

// TestTurns has conversations by both protocols: an agent streams thoughts and words, counts
// tokens, remembers what was said, and is told its instructions first each time.
func TestTurns(t *testing.T) {
	for name, messages := range map[string]bool{"openai": false, "anthropic": true} {
		t.Run(name, func(t *testing.T) {
			p := opened(t, plain.Settings{Model: "m", Instructions: "You write verse.", Messages: messages}, sandbox.SessionParams{})
			said, resp, err := p.ask(t.Context(), `[{"reasoning":"Hm.","text":"One two."}]`)
			if err != nil {
				t.Fatal(err)
			}
			if said != "One two." || resp.StopReason != acp.StopEndTurn || !slices.Equal(p.kinds, []string{"agent_thought_chunk", "agent_message_chunk", "usage_update"}) {
				t.Errorf("it said %q by %q, and ended with %s", said, p.kinds, resp.StopReason)
			}
			var used acp.Usage
			if err := json.Unmarshal(resp.Usage, &used); err != nil || used.InputTokens == 0 || used.TotalTokens != used.InputTokens+used.OutputTokens || !strings.Contains(p.usage, `"size":`) {
				t.Errorf("usage %s and %s, %v", resp.Usage, p.usage, err)
			}
			if _, _, err := p.ask(t.Context(), `[{"text":"Three."}]`); err != nil {
				t.Fatal(err)
			}
			all := p.model.Requests()
			last := string(all[len(all)-1].Body)
			if !strings.Contains(last, "You write verse.") || !slices.Contains(p.told(), "assistant: One two.") || strings.Contains(last, `"tools"`) {
				t.Errorf("the model was told %s", last)
			}
		})
	}
}

// TestEnds maps the model's reasons to those of ACP.
func TestEnds(t *testing.T) {
	p := opened(t, plain.Settings{Model: "m"}, sandbox.SessionParams{})
	for finish, want := range map[string]acp.StopReason{"stop": acp.StopEndTurn, "length": acp.StopMaxTokens, "content_filter": acp.StopRefusal} {
		if _, resp, err := p.ask(t.Context(), `[{"text":"x","finish":"`+finish+`"}]`); err != nil || resp.StopReason != want {
			t.Errorf("%s: %+v, %v", finish, resp, err)
		}
	}
}

// TestFailedTurns leaves a prompt that got no answer out of what the model is told next.
func TestFailedTurns(t *testing.T) {
	p := opened(t, plain.Settings{Model: "m"}, sandbox.SessionParams{})
	if _, _, err := p.ask(t.Context(), `[{"status":503,"text":"too busy"}]`); err == nil || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("the model failed: %v", err)
	}
	go func() {
		<-p.heard
		_ = p.Cancel()
	}()
	if _, resp, err := p.ask(t.Context(), `[{"text":"One two three.","hang":"forever","after":1}]`); err != nil || resp.StopReason != acp.StopCancelled {
		t.Errorf("cancelled: %+v, %v", resp, err)
	}
	if said, _, err := p.ask(t.Context(), `[{"text":"Four."}]`); err != nil || said != "Four." || len(p.told()) != 1 {
		t.Errorf("it said %q, %v, and the model was told %q", said, err, p.told())
	}
}

// TestLongConversation leaves out the oldest turns, and not the last one.
func TestLongConversation(t *testing.T) {
	p := opened(t, plain.Settings{Model: "m"}, sandbox.SessionParams{})
	for range 3 {
		if _, _, err := p.ask(t.Context(), `[{"text":"x"}]`+strings.Repeat(" long", 12<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if told := p.told(); len(told) != 3 || !strings.HasPrefix(told[0], "user: ") {
		t.Errorf("the model was told %d messages", len(told))
	}
}

// TestChoices are a model, which the person may set, and no mode.
func TestChoices(t *testing.T) {
	p := opened(t, plain.Settings{Model: "m"}, sandbox.SessionParams{Model: "chosen", ResumeID: "before"})
	if p.ID() != "before" || p.Resumed() || p.State().Modes != nil || string(p.State().ConfigOptions[0].CurrentValue) != `"chosen"` {
		t.Errorf("%s: %+v", p.ID(), p.State())
	}
	if _, err := p.SetConfigOption(t.Context(), "model", json.RawMessage(`"other"`)); err != nil {
		t.Error(err)
	}
	if _, _, err := p.ask(t.Context(), `[{"text":"x"}]`); err != nil || p.model.Requests()[0].Model != "other" {
		t.Errorf("the model %q was asked: %v", p.model.Requests()[0].Model, err)
	}
	if err := p.SetMode(t.Context(), "plan"); err == nil || err.Error() != `there is no mode "plan": this agent only talks` {
		t.Errorf("a mode: %v", err)
	}
}

// TestMissing is said by Check and by opening, in the words of the settings.
func TestMissing(t *testing.T) {
	missing := errors.New("no key for lab")
	a := plain.New("poet", func() (plain.Settings, error) { return plain.Settings{}, missing })
	if err := a.Check(t.Context()); !errors.Is(err, missing) {
		t.Errorf("Check: %v", err)
	}
	if _, err := a.OpenHosted(t.Context(), sandbox.HostedParams{}); !errors.Is(err, missing) {
		t.Errorf("OpenHosted: %v", err)
	}
	if a.Name() != "poet" || a.Mounts() != nil || len(a.Defaults().ConfigOptions) > 0 {
		t.Errorf("%s, %v, %+v", a.Name(), a.Mounts(), a.Defaults())
	}
}
