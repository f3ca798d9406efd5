package keeper

import (
	"fmt"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/telemetry"
)

// Notice is the type of an event with a sentence for the person that is about the
// sandbox: what a policy refused, what does not hold on this machine.
const Notice telemetry.Type = "notice"

// Network is the type of an event about a connection out of the sandbox that was allowed
// or refused.
const Network telemetry.Type = "network"

// emit numbers an event and writes it to the spool. What it says of an iteration is
// in the journal first.
func (k *keeper) emit(e telemetry.Event) {
	k.emitting.Lock()
	defer k.emitting.Unlock()
	if e.Type == telemetry.IterationStart && k.journal.open() {
		k.write(k.interruption("The next iteration began before it had ended."))
	}
	k.write(e)
}

// write is emit; emitting is held.
func (k *keeper) write(e telemetry.Event) {
	next := k.spool.Last() + 1
	j := k.journal
	switch {
	case e.Type == telemetry.IterationStart:
		j.Iteration, j.Began, j.Ended = e.Iteration, next, 0
	case e.Type == telemetry.IterationEnd:
		j.Ended = next
	case e.Type == telemetry.StateChange:
		j.State, j.Stated = string(e.State), next
	}
	if j != k.journal {
		k.note(j)
	}
	e.Agent = k.o.Agent.Name()
	if e.Time == 0 {
		e.Time = time.Now().UnixMilli()
	}
	if err := k.append(e); err != nil {
		k.log.Error("an event is lost: it cannot be written to the spool", "type", e.Type, "err", err)
	}
}

// note puts a journal in the place of the last one; emitting is held.
func (k *keeper) note(j journal) {
	k.mu.Lock()
	k.journal = j
	k.mu.Unlock()
	if err := writeJSON(k.state("keeper.json"), j); err != nil {
		k.log.Error("the journal of the run cannot be written", "err", err)
	}
}

// append writes an event. While that does not work, on a full disk for one, nothing
// goes on: the loop waits, until there is room or the run is ended.
func (k *keeper) append(e telemetry.Event) error {
	for {
		_, err := k.spool.Append(e)
		if err == nil {
			return nil
		}
		k.log.Error("events cannot be kept; the loop waits", "err", err)
		select {
		case <-k.life.Done():
			return err
		case <-time.After(appendPause):
		}
	}
}

// appendPause is between two attempts to write an event.
const appendPause = time.Second

// closeIteration ends the iteration that is open, if there is one, as interrupted.
func (k *keeper) closeIteration(why string) {
	k.emitting.Lock()
	defer k.emitting.Unlock()
	rest := k.growing.take()
	if !k.journal.open() {
		return
	}
	if rest.Content != "" {
		k.write(telemetry.Event{Type: rest.Type, Iteration: k.journal.Iteration, Summary: telemetry.Summarise(rest.Content), Content: rest.Content})
	}
	k.write(telemetry.Event{Type: telemetry.Error, Iteration: k.journal.Iteration, Summary: why, Content: why})
	k.write(k.interruption(why))
}

// interruption ends the open iteration; emitting is held.
func (k *keeper) interruption(why string) telemetry.Event {
	k.mu.Lock()
	used := k.using
	k.using = telemetry.Usage{}
	k.mu.Unlock()
	return telemetry.Event{
		Type: telemetry.IterationEnd, Iteration: k.journal.Iteration, Status: string(telemetry.Interrupted),
		Summary: "Interrupted", Content: why, Errors: 1, Usage: &used,
	}
}

// say emits a state of the run that the loop does not say itself.
func (k *keeper) say(s telemetry.State, reason string, until time.Time) {
	e := telemetry.Event{Type: telemetry.StateChange, State: s, Reason: reason, Summary: fmt.Sprintf("%s: %s", s, reason)}
	if reason == "" {
		e.Summary = string(s)
	}
	if !until.IsZero() {
		e.Until = until.UnixMilli()
	}
	k.emit(e)
}

// notice emits a sentence about the sandbox, each sentence once for each sandbox.
func (k *keeper) notice(text string) {
	k.log.Warn("notice", "text", text)
	k.emit(telemetry.Event{Type: Notice, Summary: text, Content: text})
}

// placed emits that the agent works in a new sandbox.
func (k *keeper) placed(sb sandbox.Info) {
	text := fmt.Sprintf("The agent works in a new sandbox (%s): %s.", sb.Driver, sb.Isolation)
	if len(sb.Weaker) > 0 {
		text += " It is weaker than it should be: " + strings.Join(sb.Weaker, ", ") + "."
	}
	k.emit(telemetry.Event{Type: telemetry.Sandbox, Summary: text, Content: text, Weaker: sb.Weaker})
}

// decided emits a sentence about a connection out of the sandbox.
func (k *keeper) decided(text string) {
	k.emit(telemetry.Event{Type: Network, Summary: text, Content: text})
}

// take emits what the loop says, as far as it is the loop's to say.
func (k *keeper) take(e telemetry.Event) {
	if e.Type == "" || len(e.Type) > maxType {
		k.log.Warn("the loop sent an event without a usable type")
		return
	}
	if e.Type == telemetry.Sandbox || e.Type == Network {
		k.log.Warn("the loop sent an event that is not the loop's to send", "type", e.Type)
		return
	}
	if err := k.leaks.look(e); err != nil {
		e = telemetry.Event{
			Type: telemetry.Error, Iteration: e.Iteration, Tool: e.Tool, ToolCallID: e.ToolCallID,
			Summary: fmt.Sprintf("An event (%s) is not kept: %v", e.Type, err),
		}
	}
	k.emit(e)
}

// maxType bounds the name of an event's type, in bytes.
const maxType = 64
