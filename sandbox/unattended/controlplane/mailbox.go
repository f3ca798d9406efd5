package controlplane

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
)

// A mailbox has one slot a side; the last message is the one that counts.
type mailbox struct {
	Agent        *string `json:"agent_msg"`
	Human        *string `json:"human_msg"`
	AgentUpdated *string `json:"agent_updated_at,omitempty"`
	HumanUpdated *string `json:"human_updated_at,omitempty"`
}

func readMailbox(ctx context.Context, q querier, key int64) (mailbox, error) {
	var m mailbox
	var agent, human *int64
	err := q.QueryRowContext(ctx, "SELECT agent_msg, human_msg, agent_updated, human_updated FROM mailbox WHERE run=?", key).
		Scan(&m.Agent, &m.Human, &agent, &human)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return m, err
	}
	m.AgentUpdated, m.HumanUpdated = oldOrNil(agent), oldOrNil(human)
	return m, nil
}

func oldOrNil(ms *int64) *string {
	if ms == nil {
		return nil
	}
	s := oldTime(*ms)
	return &s
}

func (p *Plane) getMailbox(w http.ResponseWriter, r *http.Request) error {
	run, err := p.chosen(r)
	if err != nil {
		return err
	}
	var m mailbox
	if run != nil {
		if m, err = readMailbox(r.Context(), p.db.read, run.key); err != nil {
			return err
		}
	}
	answer(w, http.StatusOK, m)
	return nil
}

func (p *Plane) putAgentMail(w http.ResponseWriter, r *http.Request) error {
	return p.putMail(w, r, "agent", `INSERT INTO mailbox (run, agent_msg, agent_updated) VALUES (?1,?2,?3)
		ON CONFLICT (run) DO UPDATE SET agent_msg=?2, agent_updated=?3`, nil)
}

// putHumanMail gives the loop the message before it is kept: who reads that it was sent
// can rely on its being in the next instruction.
func (p *Plane) putHumanMail(w http.ResponseWriter, r *http.Request) error {
	return p.putMail(w, r, "human", `INSERT INTO mailbox (run, human_msg, human_updated) VALUES (?1,?2,?3)
		ON CONFLICT (run) DO UPDATE SET human_msg=?2, human_updated=?3`, p.deliver)
}

func (p *Plane) deliver(ctx context.Context, run *Run, text string) error {
	switch {
	case run.Driver == External:
		return nil // it comes and reads it
	case !run.live():
		return fail(http.StatusConflict, "run %s has ended (%s): nobody reads the message", run.RunID, run.State)
	}
	return p.o.Fleet.Message(ctx, run.RunID, text)
}

func (p *Plane) putMail(w http.ResponseWriter, r *http.Request, side, query string, deliver func(context.Context, *Run, string) error) error {
	var body struct {
		Message string `json:"message"`
		RunID   string `json:"runId"`
	}
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	if strings.TrimSpace(body.Message) == "" {
		return fail(http.StatusBadRequest, "message is required")
	}
	if id := r.URL.Query().Get("run"); id != "" {
		body.RunID = id
	}
	run, err := p.choose(r, body.RunID)
	if err != nil {
		return err
	}
	if run == nil {
		return fail(http.StatusBadRequest, "there is no run whose mailbox it could be")
	}
	if deliver != nil {
		if err := deliver(r.Context(), run, body.Message); err != nil {
			return err
		}
	}
	var m mailbox
	err = p.db.write(r.Context(), func(t *tx) error {
		now := p.now()
		if _, err := t.exec(query, run.key, body.Message, now); err != nil {
			return err
		}
		t.then(func() {
			p.hub.tell(run.RunID, "mailbox_update", map[string]string{"side": side, "message": body.Message, "runId": run.RunID}, now)
		})
		var err error
		m, err = readMailbox(t.ctx, t, run.key)
		return err
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, m)
	return nil
}
