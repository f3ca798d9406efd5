package router

import (
	"context"
	"strings"
	"testing"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
)

// TestRefusedPrompt: a client can tell a prompt that the policy refuses from one that failed.
func TestRefusedPrompt(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.terms.policy = func(string) (confine.Policy, error) {
			p := policy.Default()
			p.Git = policy.GitRefuse // which a sandbox without rules cannot keep
			return confine.Policy{Policy: p}, nil
		}
	})
	_, err := r.editor.Conn.Prompt(t.Context(), &acp.PromptRequest{SessionID: r.open(t).SessionID, Prompt: []acp.ContentBlock{acp.TextBlock("go")}})
	if !Refused(err) || !strings.Contains(err.Error(), "cannot be kept") {
		t.Errorf("%v is no refusal", err)
	}
	if Refused(acp.Internal("it failed", nil)) || Refused(nil) {
		t.Error("everything is a refusal")
	}
}

// TestPolicyIsSaid: the first thing that a session says is what the agent does not
// see, with names that somebody else chose made harmless; once.
func TestPolicyIsSaid(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.terms.policy = func(string) (confine.Policy, error) {
			p := policy.Default()
			p.Network.Presets = []string{"go"}
			return confine.Policy{Policy: p, Refused: []policy.Request{{Key: "network.allow", Value: "evil\x1b.example:443"}}}, nil
		}
	})
	s, err := r.router.session(r.open(t).SessionID)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	before := len(s.pending)
	s.mu.Unlock()
	b := &backend{s: s, driver: r.opts.Drivers[0], place: &confine.Place{}}
	b.place.Policy, _ = r.terms.Policy(s.cwd)
	if b.place.Examined, err = (confine.Examination{Driver: b.driver, Git: policy.GitWarn}).Examine(t.Context(), closing{}); err != nil {
		t.Fatal(err)
	}
	b.sayPolicy()
	b.sayPolicy()
	s.mu.Lock()
	said := s.pending[before:]
	s.mu.Unlock()
	if len(said) != 1 || said[0].severity != "warning" {
		t.Fatalf("said %d things: %+v", len(said), said)
	}
	for _, want := range []string{
		"the hosts of the policy can be reached besides the model (go)", `.gooseignore closes 7 files and directories (a, "b\x1b", c, …)`, "gander policy show",
		`network.allow: evil`, "gander policy trust",
	} {
		if !strings.Contains(said[0].text, want) || strings.Contains(said[0].text, "\x1b") {
			t.Errorf("%q does not say %q", said[0].text, want)
		}
	}
	if strings.Contains(said[0].text, "git's configuration") {
		t.Errorf("%q says what the default policy has", said[0].text)
	}
}

// TestDefaultPolicyIsNotSaid: a session begins without a word about its sandbox where nothing
// differs from the default.
func TestDefaultPolicyIsNotSaid(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.router.session(r.open(t).SessionID)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{s: s, driver: r.opts.Drivers[0], place: &confine.Place{}}
	b.place.Policy = confine.Policy{Policy: policy.Default()}
	if b.place.Examined, err = (confine.Examination{Driver: b.driver, Git: policy.GitWarn}).Examine(t.Context(), closingNothing{}); err != nil {
		t.Fatal(err)
	}
	if n := inOne(b.policyNotices(false)); n.text != "" {
		t.Errorf("said %q", n.text)
	}
	b.place.Policy.Writes.Protect = []string{"/deploy"}
	if n := inOne(b.policyNotices(false)); n.severity != "info" || !strings.Contains(n.text, "/deploy cannot be written") {
		t.Errorf("said %+v", n)
	}
}

// closingNothing is a sandbox whose rules close nothing.
type closingNothing struct{ closing }

func (closingNothing) Closed(context.Context) (closed sandbox.ClosedFiles, err error) {
	return closed, nil
}

// closing is a sandbox whose rules close files, in a project without repositories.
type closing struct {
	sandbox.Sandbox
	sandbox.RuleKeeper
}

func (closing) Closed(context.Context) (sandbox.ClosedFiles, error) {
	return sandbox.ClosedFiles{Count: 7, Examples: []string{"a", "b\x1b", "c", "d"}}, nil
}

func (closing) Repositories(context.Context) (found sandbox.Repositories, err error) {
	return found, nil
}

func (closing) ProtectNamed(context.Context) (found sandbox.Repositories, err error) {
	return found, nil
}
