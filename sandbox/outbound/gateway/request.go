package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// looks reports whether the whole body of a call must be seen before it goes out.
func (g *Gateway) looks() bool {
	return !g.opts.Remote || len(g.opts.Models) > 0 || g.opts.Budget.limited() || len(g.opts.Prices) > 0 || g.opts.Inspect != nil
}

// A refusal is why a call does not go out, as it is answered.
type refusal struct {
	status        int
	code, message string
}

func (r *refusal) Error() string { return r.message }

// largeCalls is how many bodies of more than doorway.Free are held at a time.
const largeCalls = 4

// hold reads the whole body, so that it can be looked at, sent again when the
// connection it reused turns out to be closed, and changed. Of large ones only a
// few are held at a time; the others wait.
func (g *Gateway) hold(c *call, r *http.Request) error {
	data, done, err := g.large.Read(c.ctx, r.Body)
	c.undo = append(c.undo, done)
	if err != nil {
		return err
	}
	c.data = data
	return nil
}

// replay makes data the body of a request, as often as it is needed.
func replay(r *http.Request, data []byte) {
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	r.TransferEncoding = nil
}

// asked is what of a request's body counts here.
type asked struct {
	model  string
	stream bool
	// options are the stream_options, and where they end in the body; nil without any.
	options json.RawMessage
	end     int64
}

// errShape is a body in which no two readers would need to find the same model.
var errShape = errors.New("the body is not one JSON object with one model in it")

// parse reads the top of a body as every reader must: an object whose keys of
// interest occur once, in their own spelling.
func parse(data []byte) (asked, error) {
	var a asked
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return a, errShape
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return a, errShape
		}
		name := strings.ToLower(key)
		switch name {
		case "model", "stream", "stream_options":
		default:
			continue
		}
		if seen[name] || name != key || !a.take(name, value) {
			return a, errShape
		}
		if seen[name] = true; name == "stream_options" {
			a.options, a.end = value, d.InputOffset()
		}
	}
	if _, err := d.Token(); err != nil {
		return a, errShape
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || a.model == "" {
		return a, errShape
	}
	return a, nil
}

func (a *asked) take(name string, value json.RawMessage) bool {
	switch name {
	case "model":
		return json.Unmarshal(value, &a.model) == nil
	case "stream":
		var stream *bool
		ok := json.Unmarshal(value, &stream) == nil
		a.stream = stream != nil && *stream
		return ok
	}
	return true
}

// examine looks at a call before it goes out: whether its model is allowed, what
// is left of the budget, what its body holds. It may make the body ask for usage.
func (g *Gateway) examine(c *call, r *http.Request) error {
	if err := g.inspect(g.endpoint.headOf(r)); err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil // which means nothing
		return nil
	}
	if !g.looks() {
		return nil
	}
	if err := g.hold(c, r); err != nil {
		return err
	}
	a, err := parse(c.data)
	if err != nil && (len(g.opts.Models) > 0 || g.opts.Budget.limited()) {
		return &refusal{http.StatusBadRequest, "invalid_request", err.Error() + ": a policy decides about models here"}
	}
	if err == nil {
		c.stream, c.asks, c.event.Model = a.stream, a.stream, a.model
	}
	if err := g.permit(c, r, a.model); err != nil {
		return err
	}
	if err := g.permitDemands(c.data); err != nil {
		return err
	}
	if err := g.inspect(c.data); err != nil {
		return err
	}
	c.sent = c.data
	if err == nil && g.wantsUsage(r.URL.Path, a) {
		c.sent = withUsage(c.data, a)
	}
	replay(r, c.sent)
	r.Header.Set("Content-Type", "application/json") // what it was read as
	r.Header.Del("Content-Encoding")
	return nil
}

// inspect has what goes out of a call looked at.
func (g *Gateway) inspect(data []byte) error {
	if g.opts.Inspect == nil || len(data) == 0 {
		return nil
	}
	if err := g.opts.Inspect(data); err != nil {
		return &refusal{http.StatusForbidden, "leak", err.Error()}
	}
	return nil
}

// headOf is what of a call's address and headers goes out as the agent has written it.
func (e *endpoint) headOf(r *http.Request) []byte {
	head := []byte(r.URL.RawQuery)
	for _, name := range slices.Concat(passed, passedToAnthropic) {
		if !e.passes(name) {
			continue
		}
		for _, value := range r.Header.Values(name) {
			head = append(append(head, '\n'), value...)
		}
	}
	return head
}

// permit decides by the policy.
func (g *Gateway) permit(c *call, r *http.Request, model string) error {
	if !MatchModel(g.opts.Models, model) {
		return &refusal{http.StatusForbidden, "model_not_allowed", fmt.Sprintf("the model %q is not one that this session may use (%s); choose one of those, or add it to policy.model.allow",
			short(model), strings.Join(g.opts.Models, ", "))}
	}
	if strings.Contains(model, ",") && (g.choosy() || g.opts.Budget.limited() || len(g.opts.Prices) > 0) && !g.names(model) {
		return &refusal{http.StatusForbidden, "model_not_allowed", fmt.Sprintf("the model %q names several for some endpoints, which say of the last one only what it used; name one", short(model))}
	}
	if r.URL.RawQuery != "" && g.choosy() && !g.endpoint.plainQuery(r.URL.RawQuery) { // however the endpoint takes it apart
		return &refusal{http.StatusForbidden, "model_not_allowed", "parameters in the address are refused where a policy decides about models"}
	}
	if !g.opts.Budget.limited() {
		return nil
	}
	if _, ok := g.price(model); !ok && g.opts.Budget.MaxCost > 0 {
		return &refusal{http.StatusForbidden, "model_without_price", fmt.Sprintf("the cost of this session is limited (policy.model.maxCost) and no price of the model %q is known; set it in policy.model.prices", short(model))}
	}
	select {
	case g.meter.slots <- struct{}{}:
		c.undo = append(c.undo, func() { <-g.meter.slots })
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	if why := g.opts.Budget.exceeded(g.meter.Spent()); why != "" {
		return &refusal{budgetStatus, "budget_exceeded", why + "; raise it to go on"}
	}
	return nil
}

// names reports whether the policy has a model by its whole name.
func (g *Gateway) names(model string) bool {
	_, priced := g.opts.Prices[model]
	return priced || slices.Contains(g.opts.Models, model)
}

// permitDemands decides about what else a call wants.
func (g *Gateway) permitDemands(data []byte) error {
	if g.opts.Remote && !g.choosy() && !g.opts.Budget.limited() {
		return nil
	}
	wants, err := demandsOf(data, g.endpoint.Protocol)
	switch {
	case err != nil:
		return &refusal{http.StatusBadRequest, "invalid_request", err.Error() + ": it is looked at before it goes out"}
	case wants.elsewhere != "" && !g.opts.Remote:
		return &refusal{http.StatusForbidden, "remote_not_allowed", fmt.Sprintf("the call has %s in it, by which the endpoint itself reaches other hosts; send the content, or set policy.model.remote to true", wants.elsewhere)}
	case wants.models != "" && g.choosy():
		return &refusal{http.StatusForbidden, "model_not_allowed", fmt.Sprintf("%q names further models, and a policy decides about models here; name one in \"model\"", wants.models)}
	case wants.later != "" && g.opts.Budget.limited():
		return &refusal{http.StatusForbidden, "later_not_allowed", fmt.Sprintf("%q has the endpoint answer later, and what it uses then would count for no budget; wait for the answer", wants.later)}
	}
	return nil
}

// choosy reports whether it matters which model answers.
func (g *Gateway) choosy() bool { return len(g.opts.Models) > 0 || g.opts.Budget.MaxCost > 0 }

// budgetStatus is the answer when a budget is used up. Agents try again for up to
// a minute after 429, and not after this one.
const budgetStatus = http.StatusPaymentRequired

// wantsUsage reports whether a call would not say what it used: a stream of chat
// completions that was not asked to, of an endpoint that has not objected so far. What the
// agent says of it counts where there is no budget.
func (g *Gateway) wantsUsage(path string, a asked) bool {
	said := a.options != nil && string(a.options) != "null"
	return a.stream && (path == chatPath || path == "/v1/completions") && (!said || g.opts.Budget.limited()) && !g.noUsage.Load()
}

// withUsage is a body that asks for usage at the end of the stream.
func withUsage(data []byte, a asked) []byte {
	const options = `{"include_usage":true}`
	if a.options != nil {
		return slices.Concat(data[:a.end-int64(len(a.options))], []byte(options), data[a.end:])
	}
	start := bytes.IndexByte(data, '{') + 1
	return slices.Concat(data[:start], []byte(`"stream_options":`+options+","), data[start:])
}

// usageless is a RoundTripper that sends a call again as the agent made it when
// the endpoint rejects it with the question for usage in it.
type usageless struct {
	http.RoundTripper
	g *Gateway
}

func (u usageless) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	res, err := u.RoundTripper.RoundTrip(r)
	if err != nil || c == nil || bytes.Equal(c.sent, c.data) || res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusUnprocessableEntity {
		return res, err
	}
	_ = res.Body.Close()
	again := r.Clone(r.Context())
	replay(again, c.data)
	res, err = u.RoundTripper.RoundTrip(again)
	if err == nil && res.StatusCode < 300 { // or it has objected to something else
		u.g.noUsage.Store(true)
	}
	return res, err
}

// used is what a call used, as the endpoint says or by estimate; nil when nothing
// was sent to it. Of an answer that was not read to its end it is the more of both.
func (c *call) used() *Usage {
	if c.event.Path == countPath {
		return nil // which costs nothing
	}
	var said *Usage
	ended := false
	if c.body != nil {
		said, ended = c.body.usage.said, errors.Is(c.body.err, io.EOF)
	}
	if said != nil && ended || c.event.Method != http.MethodPost || c.status >= 300 || !c.left || c.status == 0 && c.ctx.Err() == nil {
		return said
	}
	u := c.estimate(ended)
	if said != nil {
		u = &Usage{Input: max(u.Input, said.Input), Output: max(u.Output, said.Output), Cached: said.Cached, Estimated: u.Input > said.Input || u.Output > said.Output}
	}
	u.Total = u.Input + u.Output
	return u
}

// estimate is what a call used about, whose answer has ended or not: see Spent.Estimated.
func (c *call) estimate(ended bool) *Usage {
	const (
		bytesPerToken = 4
		unanswered    = 1000
	)
	u := &Usage{Input: len(c.data) / bytesPerToken, Estimated: true}
	if c.data == nil {
		u.Input = int(c.length / bytesPerToken)
	}
	switch {
	case c.body != nil && c.stream:
		u.Output = c.body.usage.events
	case c.body != nil:
		u.Output = int(c.body.bytes / bytesPerToken)
	}
	if u.Output == 0 && !ended {
		u.Output = unanswered
	}
	return u
}
