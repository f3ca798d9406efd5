package confine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gander.dev/gander/sandbox/outbound/canary"
	"gander.dev/gander/sandbox/rules/policy"
)

// The values of a policy's canaries.
const (
	CanariesShow = policy.CanariesShow // what is seen is shown
	CanariesStop = policy.CanariesStop // and the session, or run, is stopped, and it does not leave
	CanariesOff  = policy.CanariesOff
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
}

// lookShare is how little of the time the closed files are looked at.
const lookShare = 20

// NewLeaks knows of nothing yet: see Look. All options but Own and Also are required.
func NewLeaks(o LeakOptions) *Leaks {
	if o.Mode == "" {
		o.Mode = CanariesOff
	}
	return &Leaks{o: o, set: canary.NewSet()}
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

// SayLeaked says why something was stopped (CanariesStop).
const SayLeaked = "content of a closed file was about to leave (policy.canaries: stop)"

// errLeak is why something does not leave.
var errLeak = errors.New("it holds content of a file that rules close, and the policy stops that (policy.canaries)")

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

// TakeStop returns why what runs is being ended, and forgets that; empty when it is not.
func (l *Leaks) TakeStop() string {
	if why := l.stop.Swap(nil); why != nil {
		return *why
	}
	return ""
}

// Known returns how many strings are looked for: none before the first look.
func (l *Leaks) Known() int { return l.set.Len() }

// Stream looks at something that leaves in parts. It is for one goroutine.
type Stream struct {
	l       *Leaks
	where   string
	scanner *canary.Scanner
}

// Stream begins to look at a new one.
func (l *Leaks) Stream(where string) *Stream { return &Stream{l, where, l.set.Scanner()} }

// Write looks at the next part; its error means that this part must not leave.
func (s *Stream) Write(p []byte) (int, error) {
	from, ok := s.scanner.Scan(p)
	if err := s.l.found(s.where, from, ok); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Join looks for what the next part makes whole together with those before. What this part
// holds by itself it leaves to a Check.
func (s *Stream) Join(p []byte) error {
	from, ok := s.scanner.Scan(p)
	if _, whole := s.l.set.Find(p); whole {
		return nil
	}
	return s.l.found(s.where, from, ok)
}
