package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// attachment is a loop's session that the editor has open. Nothing is started and
// nothing claimed for it: the loop has its own sandbox and goes on whoever watches. What
// the loop does is read from the session's transcript, which is the same thread for
// all who watch; what the person says becomes a message to the loop.
type attachment struct {
	r         *Router
	id        acp.SessionID
	log       *slog.Logger
	reading   *sessions.Reading
	past      Revival         // the tool calls that are open
	ctx       context.Context // ends with close
	stop      context.CancelFunc
	following sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	turn    string          // the iteration that runs, as far as it was read; empty between two
	own     map[string]bool // records that this editor's prompts were written as
	waiting []*delivery
	last    chan struct{} // closed when the prompt before has been given to the loop
	// prompts ends, and is replaced, when the client cancels.
	prompts     context.Context
	stopPrompts context.CancelFunc
}

// attach opens the session of a loop; nil when it is an ordinary one. With replay the
// thread is shown before it returns.
func (r *Router) attach(ctx context.Context, q stored, replay bool) (*attachment, error) {
	info, err := r.opts.Store.Info(ctx, q.id)
	if err != nil || info.Origin != sessions.OriginLoop {
		return nil, notFound(q.id, err)
	}
	if err := r.suits(ctx, &info, q); err != nil {
		return nil, err
	}
	if old := r.detach(q.id); old != nil {
		old.close()
	}
	reading, err := r.opts.Store.Read(ctx, q.id, r.opts.HistoryLimit)
	if err != nil {
		return nil, notFound(q.id, err)
	}
	a := &attachment{r: r, id: q.id, log: r.log.With("session", string(q.id)), reading: reading, own: map[string]bool{}}
	a.ctx, a.stop = context.WithCancel(r.ctx)
	a.prompts, a.stopPrompts = context.WithCancel(a.ctx)
	if err := a.catchUp(ctx, replay); err != nil {
		a.close()
		return nil, err
	}
	if loop, err := r.opts.Loops.Loop(ctx, q.id); replay && (err != nil || loop.Over) {
		a.endCalls(ctx) // nobody will
	}
	if !r.addAttachment(a) {
		a.close()
		return nil, acp.Internal("gander is shutting down", nil)
	}
	acp.AfterReply(ctx, a.announce)
	return a, nil
}

// addAttachment reports false once Close has begun.
func (r *Router) addAttachment(a *attachment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.attached[a.id] = a
	return true
}

// attachment is the one of a session; nil when there is none.
func (r *Router) attachment(id acp.SessionID) *attachment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attached[id]
}

// detach removes an attachment from the open ones; nil when it is not among them.
func (r *Router) detach(id acp.SessionID) *attachment {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attached[id]
	delete(r.attached, id)
	return a
}

// close ends the watching and every prompt that waits; the loop goes on.
func (a *attachment) close() {
	a.stop()
	a.following.Wait()
}

// announce begins the live part: the client has the response.
func (a *attachment) announce() {
	a.send(a.ctx, acp.AvailableCommandsUpdate(loopCommandList()))
	a.following.Go(a.follow)
}

func (a *attachment) send(ctx context.Context, update json.RawMessage) {
	err := a.r.client.SessionUpdate(ctx, &acp.SessionNotification{SessionID: a.id, Update: update})
	if err != nil {
		a.log.Debug("sending an update", "err", err)
	}
}

// tell says something of gander's own in the thread.
func (a *attachment) tell(ctx context.Context, text string) {
	a.send(ctx, acp.MessageChunk(acp.AgentMessageChunk, "gander-"+newID(), text+"\n"))
}

// follow passes on what is appended to the transcript, until the attachment is closed.
func (a *attachment) follow() {
	for a.ctx.Err() == nil {
		err := a.reading.Wait(a.ctx)
		if err == nil {
			err = a.catchUp(a.ctx, true)
		}
		if errors.Is(err, sessions.ErrNotFound) {
			a.tell(a.ctx, "This session was deleted; nothing more of the loop is shown here.")
		}
		if err != nil {
			a.log.Debug("following the session of a loop ends", "err", err)
			return
		}
	}
}

// catchUp reads what is new in the transcript and shows it, when show is set.
func (a *attachment) catchUp(ctx context.Context, show bool) error {
	for rec, err := range a.reading.Records(ctx) {
		if err != nil {
			return notFound(a.id, err)
		}
		updates := a.reading.Updates(&rec)
		if show && !a.isOwn(rec.ID) {
			a.show(ctx, updates)
		}
		if e, ok := rec.Body.(sessions.TurnEvent); ok {
			if e.Event == sessions.TurnEnd {
				a.endCalls(ctx)
			}
			a.iteration(&rec, e)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (a *attachment) show(ctx context.Context, updates []json.RawMessage) {
	for _, u := range updates {
		if u = a.past.Revive(u); u != nil {
			a.send(ctx, u)
		}
	}
}

// endCalls ends the tool calls that the iteration has left open.
func (a *attachment) endCalls(ctx context.Context) {
	for _, u := range a.past.Unfinished() {
		a.send(ctx, u)
	}
}

// isOwn reports whether a record is a prompt that the editor shows already.
func (a *attachment) isOwn(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own[id]
}

// iteration notes that one began or ended, and tells those whose message it had.
func (a *attachment) iteration(rec *sessions.Record, e sessions.TurnEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Event == sessions.TurnStart {
		a.turn = rec.TurnID
		for _, d := range a.waiting {
			if d.turn == "" && !rec.Time.Before(d.at) {
				d.turn = rec.TurnID
			}
		}
		return
	}
	a.turn = ""
	a.waiting = slices.DeleteFunc(a.waiting, func(d *delivery) bool {
		if d.turn != rec.TurnID {
			return false
		}
		d.ended <- e
		return true
	})
}

// delivery is a message that the loop was given and whose iteration has not ended.
type delivery struct {
	at    time.Time               // since when the loop has it, in milliseconds as records have
	turn  string                  // the iteration that has it; empty until that begins
	ended chan sessions.TurnEvent // capacity 1
}

// await registers a message that the loop has from now on.
func (a *attachment) await() *delivery {
	d := &delivery{at: time.Now().Truncate(time.Millisecond), ended: make(chan sessions.TurnEvent, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, d)
	return d
}

func (a *attachment) forget(d *delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = slices.DeleteFunc(a.waiting, func(o *delivery) bool { return o == d })
}

// chosen is why a loop's agent and options cannot be changed in the editor.
func (a *attachment) chosen() error {
	return acp.InvalidRequest(fmt.Sprintf("session %s belongs to a loop, whose agent, model and sandbox were chosen when it was started; fork the session to go on with others", a.id))
}
