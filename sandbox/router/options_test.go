package router

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// current is a list of options as "id=value id=value".
func current(options []acp.ConfigOption) string {
	var out []string
	for _, o := range options {
		if o.ID == optionPermissions || o.ID == optionAccess || o.ID == optionPorts {
			continue // every list ends with them; they have tests of their own
		}
		out = append(out, o.ID+"="+strings.Trim(string(o.CurrentValue), `"`))
	}
	return strings.Join(out, " ")
}

// lastOptions is the last config_option_update, in the same form.
func lastOptions(t *testing.T, r *rig, id acp.SessionID) string {
	t.Helper()
	for _, raw := range slices.Backward(r.editor.Updates(id)) {
		var u struct {
			ConfigOptions []acp.ConfigOption `json:"configOptions"`
		}
		if acp.UpdateKind(raw) == "config_option_update" {
			if err := json.Unmarshal(raw, &u); err != nil {
				t.Fatal(err)
			}
			return current(u.ConfigOptions)
		}
	}
	return ""
}

// set sets an option and returns the response in short.
func (r *rig) set(id acp.SessionID, option, value string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := r.editor.Conn.SetConfigOption(ctx, &acp.SetConfigOptionRequest{SessionID: id, ConfigID: option, Value: quote(value)})
	if err != nil {
		return "", err
	}
	return current(resp.ConfigOptions), nil
}

func (r *rig) mustSet(t *testing.T, id acp.SessionID, option, value string) string {
	t.Helper()
	got, err := r.set(id, option, value)
	if err != nil {
		t.Fatalf("setting %s to %s: %v", option, value, err)
	}
	return got
}

func TestOptionsAreTheSameEverywhere(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	if got, want := current(s.ConfigOptions), "model=small mode=auto thought_level=low agent=duck sandbox=box"; got != want {
		t.Errorf("session/new: %s, want %s", got, want)
	}
	if s.Modes.CurrentModeID != "auto" || len(s.Modes.AvailableModes) != 2 {
		t.Errorf("modes %+v", s.Modes)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn) // the agent runs
	for _, tt := range []struct{ option, value, want string }{
		{"model", "large", "model=large mode=auto thought_level=low agent=duck sandbox=box"},
		{"thought_level", "high", "model=large mode=auto thought_level=high agent=duck sandbox=box"},
		{"mode", "approve", "model=large mode=approve thought_level=high agent=duck sandbox=box"},
	} {
		if got := r.mustSet(t, s.SessionID, tt.option, tt.value); got != tt.want {
			t.Errorf("setting %s: %s, want %s", tt.option, got, tt.want)
		}
		if got := lastOptions(t, r, s.SessionID); got != tt.want {
			t.Errorf("update after %s: %s, want %s", tt.option, got, tt.want)
		}
	}
	if !about(r.editor.Updates(s.SessionID), `"currentModeId":"approve"`) {
		t.Error("the legacy mode was not kept in step")
	}
	for _, want := range []string{`set the-model "large"`, `set effort "high"`, "set mode approve"} {
		if r.journal.count(want) != 1 {
			t.Errorf("the agent was not told %q: %q", want, r.journal.all())
		}
	}
	if _, err := r.editor.Conn.SetSessionMode(t.Context(), &acp.SetSessionModeRequest{SessionID: s.SessionID, ModeID: "auto"}); err != nil {
		t.Fatal(err)
	}
	if got, want := lastOptions(t, r, s.SessionID), "model=large mode=auto thought_level=high agent=duck sandbox=box"; got != want {
		t.Errorf("after session/set_mode: %s, want %s", got, want)
	}
}

// TestHandOverShowsTheModeThatHolds hands a thread over and back, to an agent that remembers the mode of its
// own session: each prompt runs in the mode that the client was told last.
func TestHandOverShowsTheModeThatHolds(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.other.state = modelState()
		for _, a := range []*fakeAgent{r.agent, r.other} {
			a.resumes = true
			last := map[string]string{}
			a.onTurn = func(_ context.Context, c *fakeConv, text string) (*acp.PromptResponse, error) {
				last[c.id] = c.mode()
				return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
			}
			a.onOpen = func(_ context.Context, c *fakeConv) error {
				if mode := last[c.id]; mode != "" && c.params.Mode == "" {
					c.setMode(mode)
				}
				return nil
			}
		}
	})
	s := r.editor.NewSession(t, t.TempDir())
	shown := ""
	prompt := func(text string) {
		t.Helper()
		r.wantStop(t, s.SessionID, text, acp.StopEndTurn)
		if want := "prompt " + text + " in mode " + shown; r.journal.count(want) != 1 {
			t.Errorf("want %q: %q", want, r.journal.all())
		}
	}
	set := func(option, value string) {
		t.Helper()
		_, after, _ := strings.Cut(r.mustSet(t, s.SessionID, option, value), "mode=")
		shown, _, _ = strings.Cut(after, " ")
	}
	set("mode", "approve")
	prompt("one")
	set("agent", "swan")
	prompt("two")
	set("agent", "duck")
	prompt("three")
	set("mode", "auto")
	prompt("four")
	set("agent", "swan")
	set("mode", "approve")
	prompt("five")
	set("agent", "duck")
	prompt("six")
	set("agent", "swan")
	prompt("seven")
}

func TestOptionsThatDoNotExist(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	for _, tt := range []struct{ option, value, text string }{
		{"colour", "red", `there is no config option "colour"`},
		{"provider", "openai", `there is no config option "provider"`},
		{"model", "huge", `"huge" is not a value of model; choose one of small, large`},
		{"mode", "yolo", `"yolo" is not a value of mode`},
		{"agent", "emu", `"emu" is not a value of agent; choose one of duck, swan`},
		{"sandbox", "off", `"off" is not a value of sandbox; choose one of box, crate`},
	} {
		if _, err := r.set(s.SessionID, tt.option, tt.value); errorCode(err) != acp.CodeInvalidParams || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s=%s: %v", tt.option, tt.value, err)
		}
	}
	_, err := r.editor.Conn.SetConfigOption(t.Context(), &acp.SetConfigOptionRequest{SessionID: s.SessionID, ConfigID: "model", Type: "boolean", Value: []byte("true")})
	if errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("a boolean: %v", err)
	}
	if _, err := r.editor.Conn.SetSessionMode(t.Context(), &acp.SetSessionModeRequest{SessionID: s.SessionID, ModeID: "yolo"}); errorCode(err) != acp.CodeInvalidParams {
		t.Errorf("unknown mode: %v", err)
	}
	if _, err := r.set("nobody", "model", "large"); errorCode(err) != acp.CodeResourceNotFound {
		t.Errorf("unknown session: %v", err)
	}
}

// A choice made while the agent starts counts for the first prompt.
func TestChoicesWhileTheAgentStarts(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onOpen = func(ctx context.Context, _ *fakeConv) error {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return nil
		}
	})
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	want := "model=large mode=approve thought_level=high agent=duck sandbox=box"
	r.mustSet(t, s.SessionID, "mode", "approve")
	r.mustSet(t, s.SessionID, "thought_level", "high")
	if got := r.mustSet(t, s.SessionID, "model", "large"); got != want {
		t.Errorf("options %s, want %s", got, want)
	}
	end := r.prompt(t, s.SessionID, "x")
	close(gate)
	if got := <-end; got.stop != acp.StopEndTurn {
		t.Fatal(got)
	}
	if r.journal.count("prompt x in mode approve") != 1 {
		t.Errorf("journal %q", r.journal.all())
	}
	if got := lastOptions(t, r, s.SessionID); got != want {
		t.Errorf("the client was told %s", got)
	}
}

// An agent that is not in the mode the person chose gets no prompt.
func TestModeThatTheAgentRefusesAtStart(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(r *rig) {
		r.agent.onOpen = func(ctx context.Context, c *fakeConv) error {
			<-gate
			c.setMode("auto")
			return nil
		}
		r.agent.onSet = func(*fakeConv, string, string) error { return errors.New(`duck says its mode is "auto"`) }
	})
	s := r.open(t)
	r.mustSet(t, s.SessionID, "mode", "approve")
	close(gate)
	got := r.ask(t, s.SessionID, "x")
	if got.err == nil || !strings.Contains(got.err.Error(), `did not take the mode "approve"`) {
		t.Fatalf("got %+v", got)
	}
}

func TestChoiceThatTheAgentRefuses(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onSet = func(*fakeConv, string, string) error { return errors.New("too large") }
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	_, err := r.set(s.SessionID, "model", "large")
	if errorCode(err) != acp.CodeInternalError || !strings.Contains(err.Error(), "duck did not take the model \"large\": too large") {
		t.Errorf("got %v", err)
	}
	r.agent.conv().die("exited")
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	if r.journal.count("open duck mode= model=large resume=duck-1") != 0 {
		t.Error("the refused model was asked for again")
	}
}

// Choices outlive the agent.
func TestChoicesAfterARestart(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	for option, value := range map[string]string{"model": "large", "mode": "approve", "thought_level": "high"} {
		r.mustSet(t, s.SessionID, option, value)
	}
	r.agent.conv().die("exited")
	r.wantStop(t, s.SessionID, "y", acp.StopEndTurn)
	if r.journal.count("open duck mode=approve model=large resume=duck-1") != 1 || r.journal.count(`set effort "high"`) != 2 {
		t.Errorf("journal %q", r.journal.all())
	}
}

// A mode that nobody asked for is shown, and said.
func TestAgentThatChangesItsMode(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			c.setMode("auto")
			c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"auto"}`)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.mustSet(t, s.SessionID, "mode", "approve")
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	r.editor.Wait(t, "the option to show the mode", func() bool {
		return strings.Contains(lastOptions(t, r, s.SessionID), "mode=auto")
	})
	if text := r.editor.Text(s.SessionID, acp.AgentThoughtChunk); !strings.Contains(text, `duck says it is in mode "auto" now; "approve" was asked for.`) {
		t.Errorf("thoughts %q", text)
	}
}

// What the agent changed by itself is still shown when it has ended.
func TestStateOfAnAgentThatEnded(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	c := r.agent.conv()
	if _, err := c.SetConfigOption(t.Context(), "effort", quote("high")); err != nil {
		t.Fatal(err)
	}
	c.die("exited")
	r.journal.wait(t, "close model", 1)
	if got, want := r.mustSet(t, s.SessionID, "mode", "approve"), "model=small mode=approve thought_level=high agent=duck sandbox=box"; got != want {
		t.Errorf("options %s, want %s", got, want)
	}
}

func TestAgentAndSandboxUntilTheFirstPrompt(t *testing.T) {
	r := newRig(t, nil)
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	if got := r.mustSet(t, s.SessionID, "sandbox", "crate"); !strings.HasSuffix(got, "agent=duck sandbox=crate") {
		t.Errorf("options %s", got)
	}
	r.journal.wait(t, "close sandbox", 1)
	r.mustSet(t, s.SessionID, "mode", "approve") // of duck, not of swan
	if got := r.mustSet(t, s.SessionID, "agent", "swan"); got != "agent=swan sandbox=crate" {
		t.Errorf("options %s", got)
	}
	if got := r.mustSet(t, s.SessionID, "agent", "swan"); got != "agent=swan sandbox=crate" {
		t.Errorf("setting it again: %s", got)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if r.journal.count("open swan mode= model= resume=") != 1 {
		t.Errorf("journal %q", r.journal.all())
	}
}

func TestReplacingTheAgentWhileItStarts(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agent.onOpen = func(ctx context.Context, _ *fakeConv) error { <-ctx.Done(); return nil } // opened all the same
	})
	s := r.open(t)
	r.journal.wait(t, "open duck mode= model= resume=", 1)
	r.mustSet(t, s.SessionID, "agent", "swan")
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if r.journal.count("open swan mode= model= resume=") != 1 {
		t.Errorf("the new agent was given something of the old one: %q", r.journal.all())
	}
}

func TestReplacingByWhatDoesNotWork(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.other.check = errors.New("swan is not installed")
		r.second.check = errors.New("no daemon")
	})
	s := r.open(t)
	if _, err := r.set(s.SessionID, "agent", "swan"); err == nil || !strings.Contains(err.Error(), "swan is not installed") {
		t.Errorf("agent: %v", err)
	}
	if _, err := r.set(s.SessionID, "sandbox", "crate"); err == nil || !strings.Contains(err.Error(), "no daemon") {
		t.Errorf("sandbox: %v", err)
	}
	r.wantStop(t, s.SessionID, "x", acp.StopEndTurn)
	if r.journal.count("create") != 1 {
		t.Errorf("journal %q", r.journal.all())
	}
}

func TestOffIsOfferedWhereItIsTaken(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opts.Sandbox = sandbox.Off })
	s := r.open(t)
	if got := current(s.ConfigOptions); !strings.HasSuffix(got, "sandbox=off") {
		t.Errorf("options %s", got)
	}
	if got, want := values(optionByID(s.ConfigOptions, optionSandbox)), []string{"box", "crate", "off"}; !slices.Equal(got, want) {
		t.Errorf("sandboxes %q", got)
	}
}

// A new session shows what the agent said when it ran last.
func TestStateOfTheLastRun(t *testing.T) {
	r := newRig(t, func(r *rig) {
		configured := modelState()
		r.agent.state = sandbox.AgentState{Modes: configured.Modes, ConfigOptions: configured.ConfigOptions[2:]}
		r.agent.onOpen = func(_ context.Context, c *fakeConv) error {
			c.state = modelState()
			c.state.ConfigOptions[1].CurrentValue = quote("high")
			return nil
		}
	})
	first := r.open(t)
	r.wantStop(t, first.SessionID, "x", acp.StopEndTurn)
	second := r.open(t)
	if got, want := current(second.ConfigOptions), "model=small mode=auto thought_level=high agent=duck sandbox=box"; got != want {
		t.Errorf("options %s, want %s", got, want)
	}
	if got, want := values(&second.ConfigOptions[0]), []string{"small", "large"}; !slices.Equal(got, want) {
		t.Errorf("models %q", got)
	}
}

func TestStateOfAnotherEndpoint(t *testing.T) {
	for name, content := range map[string]string{
		"other models": `{"modes":{"currentModeId":"auto","availableModes":[]},"configOptions":[{"id":"m","name":"m","category":"model","type":"select","currentValue":"x","options":[{"value":"x","name":"x"}]}]}`,
		"no model":     `{"modes":{"currentModeId":"auto","availableModes":[]}}`,
		"garbage":      `{"modes":`,
		"too much":     `{"modes":{"currentModeId":"auto","availableModes":[{"id":"` + strings.Repeat("x", 1<<20) + `","name":"m"}]},"configOptions":[{"id":"m","name":"m","category":"model","type":"select","currentValue":"small","options":[{"value":"small","name":"x"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r0 *rig) {
				dir := r0.opts.StateDir + "/agents"
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(dir+"/duck.json", []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			})
			if got, want := current(r.open(t).ConfigOptions), "model=small mode=auto thought_level=low agent=duck sandbox=box"; got != want {
				t.Errorf("options %s, want %s", got, want)
			}
		})
	}
}

func TestValuesOfGroups(t *testing.T) {
	o := acp.ConfigOption{Options: []byte(`[{"group":"a","name":"A","options":[{"value":"1","name":"one"},{"value":"2","name":"two"}]},{"value":"3","name":"three"}]`)}
	if diff := cmp.Diff([]string{"1", "2", "3"}, values(&o)); diff != "" {
		t.Error(diff)
	}
}

// What an agent called its modes and models in one project is nothing that another
// project's session shows: the person would choose there what they do not mean.
func TestStateOfAnotherProject(t *testing.T) {
	for name, tt := range map[string]struct {
		lie  func(*sandbox.AgentState)
		want string
	}{
		"names": {func(s *sandbox.AgentState) {
			s.Modes.AvailableModes = []acp.SessionMode{{ID: "auto", Name: "approve", Description: "Asks before each step"}, {ID: "wild", Name: "Plan", Description: "Reads only"}}
			s.ConfigOptions[2] = acpagent.SelectOption("the-model", "LLM", acp.CategoryModel, "small", []acp.ConfigOptionValue{{Value: "small", Name: "Large"}, {Value: "wide", Name: "Local", Description: "Free"}})
			s.ConfigOptions[2].Description, s.ConfigOptions[2].Meta = "A lie", json.RawMessage(`{"gander.dev":{"sandbox":{}}}`)
			s.ConfigOptions[1].Description = "A lie"
		}, `[{"id":"auto","name":"auto"},{"id":"wild","name":"wild"}] [{"value":"small","name":"SMALL"},{"value":"wide","name":"wide"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var lied atomic.Bool
			r := newRig(t, func(r *rig) {
				r.agent.onOpen = func(ctx context.Context, c *fakeConv) error {
					if !lied.CompareAndSwap(false, true) {
						<-ctx.Done()
						return ctx.Err()
					}
					c.state = modelState()
					tt.lie(&c.state)
					return nil
				}
			})
			first := r.open(t)
			r.wantStop(t, first.SessionID, "x", acp.StopEndTurn)
			second := r.open(t)
			if got := string(marshal(second.Modes.AvailableModes)) + " " + string(second.ConfigOptions[0].Options); got != tt.want {
				t.Errorf("offered is %s, want %s", got, tt.want)
			}
			if all := string(marshal(second.ConfigOptions)); strings.Contains(all, "A lie") || strings.Contains(all, metaKey) {
				t.Errorf("options %s", all)
			}
		})
	}
}
