package controlplane

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
)

const (
	maxAsked      = 50 // questions that wait at a time
	maxAskedByRun = 5  // of these by one run, so that it leaves room for others
	// askWait bounds a request of an asker, who comes again at once; one who does not within
	// askAgain has gone, and the question with it.
	askWait  = 8 * time.Second // keepers wait ten for an answer
	askAgain = 10 * time.Second
)

// asked holds the questions that wait for a person. They are not kept: askers put them anew.
type asked struct {
	mu  sync.Mutex // guards all
	all []*waiting // the oldest first
}

// waiting is one question.
type waiting struct {
	notify.Question
	RunID   string `json:"runId,omitempty"`
	AskedAt string `json:"askedAt"`

	asker  string // who may take the answer
	answer chan notify.Answer
	askers int
	gone   *time.Timer
}

var questionID = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// errCompat refuses questions where everybody on this machine is taken for the person.
var errCompat = fail(http.StatusForbidden, "gander serve --compat takes everybody on this machine for you, so that no questions are answered here: start it without --compat, or answer in your editor")

// askQuestion puts a question, or waits further for the answer to one: 200 has it, 202 says to
// come again.
func (p *Plane) askQuestion(w http.ResponseWriter, r *http.Request) error {
	if p.o.Compat {
		return errCompat
	}
	var q waiting
	if err := readBody(w, r, &q.Question, false); err != nil {
		return err
	}
	if len(q.ID) < 8 || len(q.ID) > 64 || !questionID.MatchString(q.ID) || q.Title == "" || q.Kind != "form" && len(q.Options) == 0 || len(q.Options) > 20 {
		return fail(http.StatusUnprocessableEntity, "a question has an id, a title, and options or a form")
	}
	q.RunID, q.asker = "", "person"
	if c := callerOf(r); c.kind == sandbox {
		q.RunID, q.asker, q.Agent, q.Session = c.run.RunID, c.run.RunID, c.run.Agent, c.run.SessionID
	}
	is, err := p.enter(&q)
	if err != nil {
		return err
	}
	defer p.leave(is)
	wait := time.NewTimer(askWait)
	defer wait.Stop()
	select {
	case a := <-is.answer:
		p.forget(is)
		answer(w, http.StatusOK, a)
	case <-wait.C:
		answer(w, http.StatusAccepted, map[string]string{"status": "waiting"})
	case <-r.Context().Done():
	case <-p.ctx.Done():
		return errClosed
	}
	return nil
}

// enter adds a question, or finds it when it waits already.
func (p *Plane) enter(q *waiting) (*waiting, error) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	ofRun := 0
	for _, other := range p.asked.all {
		if q.RunID != "" && other.RunID == q.RunID {
			ofRun++
		}
		if other.ID != q.ID {
			continue
		}
		if other.asker != q.asker {
			return nil, fail(http.StatusConflict, "there is another question %s", q.ID)
		}
		other.askers++
		other.gone.Stop()
		return other, nil
	}
	if ofRun >= maxAskedByRun {
		return nil, fail(http.StatusServiceUnavailable, "%d questions of this run wait already", ofRun)
	}
	if len(p.asked.all) >= maxAsked {
		return nil, fail(http.StatusServiceUnavailable, "%d questions wait already", maxAsked)
	}
	q.AskedAt, q.answer, q.askers = iso(p.now()), make(chan notify.Answer, 1), 1
	q.gone = time.AfterFunc(time.Hour, func() { p.forget(q) })
	q.gone.Stop() // until its asker leaves
	p.asked.all = append(p.asked.all, q)
	p.tellAsked()
	return q, nil
}

// leave lets a question go when nobody comes again for its answer.
func (p *Plane) leave(q *waiting) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	if q.askers--; q.askers == 0 && slices.Contains(p.asked.all, q) {
		q.gone.Reset(askAgain)
	}
}

func (p *Plane) forget(q *waiting) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	q.gone.Stop()
	before := len(p.asked.all)
	p.asked.all = slices.DeleteFunc(p.asked.all, func(other *waiting) bool { return other == q })
	if len(p.asked.all) < before {
		p.tellAsked()
	}
}

// endQuestions stops the clocks of what waits.
func (p *Plane) endQuestions() {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	for _, q := range p.asked.all {
		q.gone.Stop()
	}
	p.asked.all = nil
}

// tellAsked tells the live clients that the questions have changed; mu is held.
func (p *Plane) tellAsked() {
	p.hub.tell("", "questions", map[string]int{"waiting": len(p.asked.all)}, p.now())
}

// questions lists what waits for the person.
func (p *Plane) questions(w http.ResponseWriter, _ *http.Request) error {
	all := []*waiting{}
	if !p.o.Compat {
		p.asked.mu.Lock()
		for _, q := range p.asked.all {
			if len(q.answer) == 0 {
				all = append(all, q)
			}
		}
		p.asked.mu.Unlock()
	}
	answer(w, http.StatusOK, map[string]any{"questions": all})
	return nil
}

// answerQuestion gives a question the person's answer. The first one holds.
func (p *Plane) answerQuestion(w http.ResponseWriter, r *http.Request) error {
	if p.o.Compat {
		return errCompat
	}
	var a notify.Answer
	if err := readBody(w, r, &a, false); err != nil {
		return err
	}
	id := r.PathValue("id")
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	i := slices.IndexFunc(p.asked.all, func(q *waiting) bool { return q.ID == id })
	if i < 0 {
		return fail(http.StatusNotFound, "this question does not wait any more: it was answered elsewhere, or withdrawn")
	}
	q := p.asked.all[i]
	switch {
	case q.Kind == "form":
		var values map[string]json.RawMessage
		if a.Action != "decline" && (a.Action != "accept" || json.Unmarshal(a.Content, &values) != nil) {
			return fail(http.StatusUnprocessableEntity, "the answer to a form is the action accept with the values as content, or decline")
		}
		a.Option = ""
	case !slices.ContainsFunc(q.Options, func(o notify.Option) bool { return o.ID == a.Option }):
		return fail(http.StatusUnprocessableEntity, "optionId %q is not one of the question's", a.Option)
	default:
		a.Action, a.Content = "", nil
	}
	select {
	case q.answer <- a:
	default:
		return fail(http.StatusConflict, "this question was answered a moment ago")
	}
	p.tellAsked()
	p.log.Info("a question was answered on the page", "question", q.ID, "session", q.Session, "option", a.Option, "action", a.Action)
	answer(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}
