package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"sync"
	"time"
)

// digest sums what an answer says.
type digest struct{ h hash.Hash }

// add takes in strings of an answer, and reports whether there was anything in them.
func (d *digest) add(kind byte, raw ...json.RawMessage) bool {
	some := false
	for _, r := range raw {
		if len(r) == 0 || string(r) == "null" || string(r) == `""` || string(r) == "[]" {
			continue
		}
		var text string
		if json.Unmarshal(r, &text) != nil {
			text = string(r)
		}
		d.text(kind, text)
		some = true
	}
	return some
}

// text takes in a piece; how the pieces were cut does not count.
func (d *digest) text(kind byte, text string) {
	if text == "" {
		return
	}
	if d.h == nil {
		d.h = sha256.New()
	}
	if kind != 't' && kind != 'r' {
		_, _ = d.h.Write([]byte{0, kind})
	}
	_, _ = d.h.Write([]byte(text))
}

// sum returns nothing for an answer that said nothing.
func (d *digest) sum() string {
	if d.h == nil {
		return ""
	}
	return string(d.h.Sum(nil))
}

const (
	// sameCalls bounds how often an agent may send one request again without learning anything
	// new, in sameTime. It is twice as often as agents try again after errors.
	sameCalls = 12
	sameTime  = 2 * time.Minute
	// sameAnswers bounds how often the model may say the same again, whatever it was asked.
	sameAnswers = 250
	// rememberedCalls bounds the requests of which it is known.
	rememberedCalls = 16
	// pausedDelay holds up calls of an agent that goes on calling when it is paused.
	pausedDelay = time.Second
)

// progress notices an agent that calls the model again and again and comes no further.
type progress struct {
	// mu guards what follows.
	mu       sync.Mutex
	requests []*sameRequest // the newest last
	last     string         // what was answered last
	again    int            // how often that was answered in a row
	paused   string         // why no call goes out; empty while they do
}

// sameRequest counts a request that was sent at least once.
type sameRequest struct {
	sum     string
	since   time.Time
	vain    int // calls whose answer said nothing new
	answers []string
}

// Proceed lets calls out again: somebody has asked the agent for something new.
func (g *Gateway) Proceed() { g.progress.reset() }

func (p *progress) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.last, p.again, p.paused = nil, "", 0, ""
}

func (p *progress) why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// pausedCall refuses a call while the session is paused, after a moment.
func (g *Gateway) pausedCall(c *call) error {
	why := g.progress.why()
	if why == "" {
		return nil
	}
	select {
	case <-time.After(pausedDelay):
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	return &refusal{http.StatusPaymentRequired, pausedCode, why}
}

const pausedCode = "paused"

// ended takes in a call that has ended.
func (p *progress) ended(request, answer string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer == p.last && answer != "" {
		p.again++
	} else {
		p.last, p.again = answer, 0
	}
	if request == "" {
		return
	}
	i := slices.IndexFunc(p.requests, func(r *sameRequest) bool { return r.sum == request })
	if i < 0 {
		p.requests = append(p.requests, &sameRequest{sum: request, since: now})
		if len(p.requests) > rememberedCalls {
			p.requests = p.requests[1:]
		}
		i = len(p.requests) - 1
	}
	r := p.requests[i]
	if now.Sub(r.since) > sameTime {
		r.since, r.vain = now, 0
	}
	if answer == "" || slices.Contains(r.answers, answer) {
		r.vain++
	} else {
		r.vain = 0
		r.answers = append(r.answers, answer)
	}
	switch {
	case r.vain >= sameCalls:
		p.paused = fmt.Sprintf("The agent has sent the model the same request %d times and got nothing new, so its model calls are paused. Send another prompt to go on; if it happens again, choose another model or agent.", r.vain)
	case p.again >= sameAnswers:
		p.paused = fmt.Sprintf("The model has answered the same %d times in a row, so the agent's model calls are paused. Send another prompt to go on, or choose another model.", p.again+1)
	}
}

// sumOf returns the sum of a request without its numbers, as agents write the time into what is else the
// same. A conversation that goes on has more in it.
func sumOf(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	h := sha256.New()
	from := 0
	for i, b := range data {
		if b < '0' || b > '9' {
			continue
		}
		_, _ = h.Write(data[from:i])
		from = i + 1
	}
	_, _ = h.Write(data[from:])
	return string(h.Sum(nil))
}
