package controlplane

import (
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/telemetry"
)

// noted remembers what was told last of each run that goes on.
type noted struct {
	mu   sync.Mutex // guards last
	last map[string]notedState
}

type notedState struct {
	state telemetry.State
	at    time.Time
}

// noteAgain bounds how soon the same state of a run is told again: one that waits may do so
// after every iteration.
const noteAgain = 10 * time.Minute

// fresh reports whether a state of a run is to be told now.
func (n *noted) fresh(r *Run, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[string]notedState{}
	}
	before := n.last[r.RunID]
	if before.state == r.State && now.Sub(before.at) < noteAgain {
		return false
	}
	n.last[r.RunID] = notedState{r.State, now}
	if terminal(r.State) {
		delete(n.last, r.RunID)
	}
	return true
}

// notifyRun tells the person who is away of a run that has begun to wait, has paused, ended or
// failed. The pause between two iterations is no waiting.
func (p *Plane) notifyRun(r *Run, before telemetry.State) {
	says := map[telemetry.State]string{
		telemetry.Waiting: "waiting", telemetry.Unready: "waiting for the model", telemetry.Paused: "paused",
		telemetry.Stopped: "stopped", telemetry.Done: "done", telemetry.Broken: "failed",
	}
	state := says[r.State]
	if p.o.Notify == nil || state == "" || r.State == before || terminal(before) && terminal(r.State) || r.State == telemetry.Waiting && r.Reason == "" || !p.noted.fresh(r, p.o.Now()) {
		return
	}
	note := notify.Note{Kind: "run", State: state, Agent: r.Agent, Run: r.RunID, Words: r.Reason, Dir: r.Workspace, Link: p.linkTo(r.RunID)}
	if r.Workspace != "" {
		note.Project = filepath.Base(r.Workspace)
	}
	p.notify(note)
}

func (p *Plane) notify(n notify.Note) {
	if p.o.Notify != nil {
		p.o.Notify(n)
	}
}

// linkTo is the page's address of a run, without a token.
func (p *Plane) linkTo(run string) string {
	if p.o.PageURL == "" {
		return ""
	}
	link := strings.TrimRight(p.o.PageURL, "/") + "/"
	if run != "" {
		link += "#run=" + url.QueryEscape(run)
	}
	return link
}
