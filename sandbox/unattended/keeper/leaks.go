package keeper

import (
	"encoding/json"
	"fmt"
	"io"

	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/telemetry"
)

// recorded names the place where the canaries have seen something in what is kept of a run.
const recorded = "what the agent says and does, which is recorded"

// leaks looks for content of closed files in what is kept of a run and sent.
type leaks struct {
	*confine.Leaks
	said map[telemetry.Type]io.Writer // look at texts that come in pieces
}

func (k *keeper) newLeaks() *leaks {
	project := k.asked().Workspace
	o := confine.LeakOptions{
		Mode: k.o.Terms.Canaries(project), Project: project, Context: k.life, Log: k.log,
		Notice: func(_, text string) { k.remark(text) },
		Stop:   k.leaked,
		Spawn:  func(f func()) { go f() }, // ends with life, or after a sentence
	}
	if rules := k.o.Terms.Rules(); rules != nil {
		o.Own = rules.Own
	}
	l := &leaks{Leaks: confine.NewLeaks(o)}
	l.said = map[telemetry.Type]io.Writer{telemetry.Text: l.Stream(recorded), telemetry.Thought: l.Stream(recorded)}
	return l
}

// remark tells the person something about the present sandbox.
func (k *keeper) remark(text string) {
	k.mu.Lock()
	in := k.present
	k.mu.Unlock()
	in.notice(text)
}

// leaked ends the iteration and lets none follow until a person says so.
func (k *keeper) leaked(why string) {
	if err := k.hold(confine.SayLeaked); err != nil {
		k.remark(fmt.Sprintf("%s The run could not be paused (%v): stop it with `gander loop stop`.", why, err))
		return
	}
	k.remark(why + " The iteration was ended and the run is paused (policy.canaries: stop). `gander loop resume` goes on with it.")
}

// look looks for it in an event that is about to be kept. An error means that it must not be.
func (l *leaks) look(e telemetry.Event) error {
	if !l.On() {
		return nil
	}
	if e.Type == telemetry.IterationStart {
		l.Look()
	}
	if pieces := l.said[e.Type]; pieces != nil {
		if _, err := io.WriteString(pieces, e.Content); err != nil {
			return err
		}
		e.Content = ""
	}
	whole, err := json.Marshal(e) // whatever it has, the name of a tool or a status
	if err != nil {
		return err
	}
	return l.Check(recorded, whole)
}

// letter looks for it in what the agent sends to the control plane.
func (l *leaks) letter(text []byte) error {
	return l.Check("a message of the agent to the control plane", text)
}
