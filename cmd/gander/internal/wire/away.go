package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
)

// Away puts questions of editors' sessions to a person who is not at the editor: on the page of
// gander serve while one runs, and by a notice when nobody has answered for a while.
type Away struct {
	home, page string
	notices    *notify.Sender // nil where no address is set
	after      time.Duration  // without an answer, before the notice
}

const (
	unansweredTime = time.Minute
	planeAgain     = 3 * time.Second // between two looks for a control plane
)

// NewAway returns an Away for the person's configuration. Close it.
func (w *Wiring) NewAway() (*Away, error) {
	notices, err := w.Notices()
	return &Away{home: w.Config().Home, page: w.Config().Notify.Page, notices: notices, after: unansweredTime}, err
}

// Close ends the notices.
func (a *Away) Close() {
	if a.notices != nil {
		a.notices.Close()
	}
}

// Ask returns the answer that a person gives on the page; ctx ends the asking.
func (a *Away) Ask(ctx context.Context, q notify.Question) (notify.Answer, error) {
	if a.notices != nil {
		remind := time.AfterFunc(a.after, func() { a.notices.Send(a.note(q)) })
		defer remind.Stop()
	}
	for {
		answer, err := a.askPlane(ctx, q)
		if err == nil {
			return answer, nil
		}
		if refused, is := errors.AsType[*client.Error](err); is && refused.Status < http.StatusInternalServerError {
			<-ctx.Done() // this control plane answers no questions
		}
		select {
		case <-ctx.Done():
			return notify.Answer{}, notify.ErrNobody
		case <-time.After(planeAgain):
		}
	}
}

// askPlane asks on the page of the control plane that runs.
func (a *Away) askPlane(ctx context.Context, q notify.Question) (notify.Answer, error) {
	if !serving(a.home) { // its address may be another program's by now
		return notify.Answer{}, notify.ErrNobody
	}
	o, err := PlaneOf(a.home, PlaneFlags{})
	if err != nil {
		return notify.Answer{}, err
	}
	c, err := client.New(o)
	if err != nil {
		return notify.Answer{}, err
	}
	defer c.Close()
	return c.Ask(ctx, q)
}

func (a *Away) note(q notify.Question) notify.Note {
	n := notify.Note{Kind: "question", State: "a question waits for you", Agent: q.Agent, Project: q.Project, Dir: q.Dir, Words: q.Title}
	if !serving(a.home) {
		return n
	}
	if n.Link = a.page; n.Link == "" {
		if o, err := PlaneOf(a.home, PlaneFlags{}); err == nil {
			n.Link = o.URL
		}
	}
	n.Link = strings.TrimRight(n.Link, "/") + "/"
	return n
}
