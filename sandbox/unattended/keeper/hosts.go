package keeper

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/outbound/notify"
)

const (
	maxHosts  = 10 // that are asked about in one sandbox
	hostAgain = 5 * time.Second
)

// decided tells what was decided about a host. One that no rule names is refused at once, and
// the person is asked on the page whether the next attempt may go through, where the policy asks.
func (in *incarnation) decided(t egress.Tally) {
	in.k.decided(t.String())
	address := t.Address()
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.asks || !t.Unruled() || in.hosts[address] || len(in.hosts) == maxHosts || in.life.Err() != nil {
		return
	}
	in.hosts[address] = true
	in.asking.Go(func() { in.askHost(address) })
}

// askHost asks about a host until somebody has answered or the sandbox ends.
func (in *incarnation) askHost(address string) {
	k := in.k
	body, err := json.Marshal(notify.Question{
		ID: uuid.NewString(), Kind: "permission", Agent: k.asked().Agent, Project: filepath.Base(k.asked().Workspace), Title: "Connect to " + address,
		Text: "It was refused. Your answer is for the next attempt.",
		Options: []notify.Option{
			{ID: string(egress.Project), Name: "Always allow " + address + " in this project", Kind: "allow_always"},
			{ID: string(egress.Deny), Name: "Deny", Kind: "reject_once"},
		},
	})
	if err != nil {
		return // a value of ours that cannot be encoded: a programmer's error
	}
	for in.life.Err() == nil {
		var a notify.Answer
		r, err := k.plane.send(in.life, http.MethodPost, "/api/questions", http.Header{"Content-Type": {"application/json"}}, body)
		switch {
		case err == nil && r.status == http.StatusAccepted: // it waits
			continue
		case err == nil && r.status == http.StatusOK && json.Unmarshal(r.body, &a) == nil:
			in.allow(address, egress.Answer(a.Option))
			return
		case err == nil && r.status < http.StatusInternalServerError:
			return // this control plane answers no questions
		}
		select { // it is away, or has too many questions
		case <-in.life.Done():
		case <-time.After(hostAgain):
		}
	}
}

// allow keeps what the person has answered.
func (in *incarnation) allow(address string, a egress.Answer) {
	if a != egress.Project {
		return
	}
	if err := in.k.o.AllowHost(address); err != nil {
		in.notice(fmt.Sprintf("You have allowed %s, which could not be kept: %v.", address, err))
		return
	}
	in.notice(fmt.Sprintf("You have allowed %s for this project: the next attempt goes through.", address))
}

// asksHosts reports whether the person is to be asked about hosts.
func (k *keeper) asksHosts() bool {
	if k.o.AllowHost == nil {
		return false
	}
	p, err := k.o.Terms.Policy(k.asked().Workspace)
	return err == nil && p.Network.Ask
}

// endQuestions withdraws what is being asked.
func (in *incarnation) endQuestions() {
	in.mu.Lock()
	in.endLife() // no question begins from here on
	in.mu.Unlock()
	in.asking.Wait()
}
