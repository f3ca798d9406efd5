package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/canary"
)

// The values that Options.Canaries may return.
const (
	CanariesShow = "show" // what is seen is shown
	CanariesStop = "stop" // and the session, or run, is stopped, and it does not leave
	CanariesOff  = "off"
)

// LeakOptions say what Leaks looks for, and who learns of it.
type LeakOptions struct {
	// Mode is one of the Canaries values; empty is CanariesOff.
	Mode string
	// Project is the directory whose closed files are looked at, Also are others, and
	// Own is the path of the person's own rules file, see sandbox.Rules.
	Project, Own string
	Also         []string
	// Context ends the looking.
	Context context.Context
	// Notice shows the person a sentence, and Stop ends what runs, and says this and what
	// became of it. Both are called on goroutines that Spawn starts.
	Notice func(severity, text string)
	Stop   func(reason string)
	Spawn  func(func())
	Log    *slog.Logger
}

// Leaks looks for content of a project's closed files in what leaves a sandbox.
// Its methods may be called concurrently.
type Leaks struct {
	o   LeakOptions
	set *canary.Set

	// mu guards when the files were looked at last, and for how long.
	mu      sync.Mutex
	looking bool
	first   chan struct{} // closed when the first look is over; nil before it
	looked  time.Time
	took    time.Duration

	// stop is why what runs is being ended; empty when it is not.
	stop atomic.Pointer[string]

	// What the agent says comes in pieces. They belong to who passes updates on.
	said, thought *canary.Scanner
}

// lookShare is how little of the time the closed files are looked at.
const lookShare = 20

// NewLeaks knows of nothing yet: see Look. All options but Own and Also are required.
func NewLeaks(o LeakOptions) *Leaks {
	if o.Mode == "" {
		o.Mode = CanariesOff
	}
	l := &Leaks{o: o, set: canary.NewSet()}
	l.said, l.thought = l.set.Scanner(), l.set.Scanner()
	return l
}

func newLeaks(s *session) *Leaks {
	o := LeakOptions{Project: s.cwd, Also: s.dirs, Context: s.ctx, Notice: s.notice, Stop: s.halt, Spawn: s.spawn, Log: s.log}
	if s.r.opts.Canaries != nil {
		o.Mode = s.r.opts.Canaries(s.cwd)
	}
	if rules := s.r.opts.Rules; rules != nil {
		o.Own = rules.Own
	}
	return NewLeaks(o)
}

// Look learns what is in the closed files, in the background: when they have not
// been looked at, or not for a while.
func (l *Leaks) Look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Mode == CanariesOff || l.looking || time.Since(l.looked) < lookShare*l.took {
		return
	}
	l.looking = true
	first := l.first == nil
	if first {
		l.first = make(chan struct{})
	}
	l.o.Spawn(func() {
		if first {
			defer close(l.first)
		}
		report, err := l.set.Read(l.o.Context, l.o.Project, "", l.o.Own)
		for _, dir := range l.o.Also {
			more, e := l.set.Read(l.o.Context, dir, dir, l.o.Own)
			report.Files, report.Partial, report.Took = report.Files+more.Files, report.Partial || more.Partial, report.Took+more.Took
			err = errors.Join(err, e)
		}
		if err != nil {
			l.o.Notice("warning", fmt.Sprintf("It is not noticed when content of closed files leaves the session: %v.", err))
		}
		l.o.Log.Debug("looked at the closed files", "files", report.Files, "tokens", l.set.Len(), "partial", report.Partial, "took", report.Took)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looking, l.looked, l.took = false, time.Now(), report.Took
	})
}

// Wait returns when the first look is over, if it has begun: an agent may send at once.
// That takes a few seconds at most. An error is ctx's.
func (l *Leaks) Wait(ctx context.Context) error {
	l.mu.Lock()
	first := l.first
	l.mu.Unlock()
	if first == nil {
		return nil
	}
	select {
	case <-first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errLeak is why something does not leave.
var errLeak = errors.New("it holds content of a file that .gooseignore closes, and the policy stops that (policy.canaries)")

// On reports whether anything is looked for.
func (l *Leaks) On() bool { return l.o.Mode != CanariesOff }

// Check looks at something that leaves as a whole. An error means that it must not.
func (l *Leaks) Check(where string, data []byte) error {
	if l.o.Mode == CanariesOff {
		return nil
	}
	from, ok := l.set.Find(data)
	return l.found(where, from, ok)
}

func (l *Leaks) found(where string, from canary.Source, ok bool) error {
	if !ok {
		return nil
	}
	text := fmt.Sprintf("What looks like a secret of the closed file %s (line %d) was seen in %s.", from.File, from.Line, where)
	if l.o.Mode == CanariesStop {
		l.stop.Store(&text)
		l.o.Spawn(func() { l.o.Stop(text) })
		return errLeak
	}
	l.o.Spawn(func() { l.o.Notice("warning", text+" If it should not be there, replace the secret.") })
	return nil
}

// takeStop is why what runs is being ended since it was asked last; empty when it is not.
func (l *Leaks) takeStop() string {
	if why := l.stop.Swap(nil); why != nil {
		return *why
	}
	return ""
}

// Writer looks at a stream that leaves; its error means that the part it was given
// must not.
func (l *Leaks) Writer(where string) io.Writer {
	return &leakWriter{l, where, l.set.Scanner()}
}

type leakWriter struct {
	l       *Leaks
	where   string
	scanner *canary.Scanner
}

func (w *leakWriter) Write(p []byte) (int, error) {
	from, ok := w.scanner.Scan(p)
	if err := w.l.found(w.where, from, ok); err != nil {
		return 0, err
	}
	return len(p), nil
}

// What the agent says, and what it asks the person, is recorded and shown.
const (
	leakSaid    = "what the agent says and does here, which is recorded"
	leakAsked   = "a question of the agent, which is recorded"
	leakChanged = "what the turn has changed in files, which is recorded"
)

// error looks at why something of the agent's has ended, which may be in its own
// words, before it is recorded and shown: what must not be is replaced.
func (l *Leaks) error(err error) error {
	if err == nil {
		return nil
	}
	said := []byte(err.Error())
	if e, ok := errors.AsType[*acp.Error](err); ok {
		said = append(said, marshal(e)...)
	}
	if leak := l.Check(leakSaid, said); leak != nil {
		return acp.Internal(fmt.Sprintf("the agent's words are left out: %v", leak), nil)
	}
	return err
}

var (
	// textField begins the text of a message chunk.
	textField = []byte(`"text":"`)
	// liveField is in every _meta of which acp.LiveOutput is a text.
	liveField = []byte(`live_output`)
)

// update looks at what the agent says and shows, before it is recorded and passed
// on. An error means that it must not be. Updates come one at a time.
func (l *Leaks) update(kind string, update []byte) error {
	if l.o.Mode == CanariesOff || l.set.Len() == 0 {
		return nil
	}
	var scanner *canary.Scanner
	switch kind {
	case "agent_message_chunk":
		scanner = l.said
	case "agent_thought_chunk":
		scanner = l.thought
	default:
		scanner = l.set.Scanner()
	}
	if _, after, ok := bytes.Cut(update, textField); ok && (scanner == l.said || scanner == l.thought) {
		update = after[:textEnd(after)] // pieces of a text join without what is around them
	}
	from, ok := scanner.Scan(update)
	return l.found(leakSaid, from, ok)
}

// leakPieces looks at what a tool prints while it runs, which comes in pieces.
type leakPieces struct {
	l       *Leaks
	scanner *canary.Scanner
}

func (l *Leaks) pieces() *leakPieces { return &leakPieces{l, l.set.Scanner()} }

// next looks for what only the next piece, in an update's _meta, has made whole. An error
// means that the update must not be recorded or passed on.
func (p *leakPieces) next(meta json.RawMessage) error {
	if !p.l.On() || !bytes.Contains(meta, liveField) {
		return nil
	}
	var said map[string]json.RawMessage
	_ = json.Unmarshal(meta, &said) // anything else prints nothing
	text := []byte(acp.LiveOutput(said))
	from, ok := p.scanner.Scan(text)
	if _, seen := p.l.set.Find(text); seen {
		return nil // by update, too
	}
	return p.l.found(leakSaid, from, ok)
}

// textEnd is where a JSON string ends.
func textEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// howToGoOn is what a person can do about a session that was stopped.
const howToGoOn = "Send /reset, and the agent begins anew, without it; or load the session again, and the agent goes on."

// halt ends what runs, the agent too, and lets no prompt be answered before the person
// has had the agent begin anew, or has opened the session again.
func (s *session) halt(why string) {
	s.mu.Lock()
	again := s.halted != ""
	s.halted = why
	s.mu.Unlock()
	if again {
		s.notice("error", why)
		return
	}
	s.tell("error", why+" The session is stopped (policy.canaries: stop): what ran was ended, and no prompt is answered. "+howToGoOn)
	s.cancelTurns(&haltError{why})
	s.restart(false)
}

// stopped is why the session's prompts are not answered; nil when they are.
func (s *session) stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted == "" {
		return nil
	}
	return acp.Internal("The session was stopped (policy.canaries: stop). "+s.halted+" "+howToGoOn, json.RawMessage(byPolicy))
}

// spawn runs f on a goroutine that close waits for; not any more once the session
// is closed.
func (s *session) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
}
