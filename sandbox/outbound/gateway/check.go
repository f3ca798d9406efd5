package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Error is what Check found. Its message is a sentence for people.
type Error struct {
	Kind    Kind
	Status  int // of the endpoint's answer; 0 without one
	Message string
}

func (e *Error) Error() string { return e.Message }

// Check asks the endpoint for its models, or, where it does not list them, for
// one token of Endpoint.Model. It returns nil when agents will get answers, else
// an *Error. Observe hears nothing of it.
func (g *Gateway) Check(ctx context.Context) error {
	err := g.probe(ctx, http.MethodGet, "/v1/models", nil)
	if err == nil || err.Status != http.StatusNotFound && err.Status != http.StatusMethodNotAllowed && err.Status != http.StatusNotImplemented {
		return asError(err)
	}
	err = g.probe(ctx, http.MethodPost, g.askPath(), g.oneToken())
	if err != nil && g.endpoint.Model == "" && (err.Status == http.StatusBadRequest || err.Status == http.StatusUnprocessableEntity) {
		return nil // it misses the model, so address and key are right
	}
	return asError(err)
}

// asError keeps a nil *Error from becoming a non-nil error.
func asError(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// checkBody bounds what Check reads of an answer.
const checkBody = 4 << 20

func (g *Gateway) probe(ctx context.Context, method, inside string, body []byte) *Error {
	_, err := g.ask(ctx, method, inside, body)
	return err
}

// ask is probe with the answer.
func (g *Gateway) ask(ctx context.Context, method, inside string, body []byte) ([]byte, *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &call{cancel: cancel, start: time.Now()}
	c.ctx = context.WithValue(ctx, callKey{}, c)
	answer := g.exchange(c, method, inside, body)
	e := g.outcome(c)
	if e.Kind == Finished && !json.Valid(answer) {
		e.Kind = Rejected
		e.Message = fmt.Sprintf("%s does not answer like a model API; check LLM_HOST.", g.endpoint.root)
	}
	if e.Kind == Finished {
		return answer, nil
	}
	return answer, &Error{Kind: e.Kind, Status: c.status, Message: e.Message}
}

// exchange makes a request as the proxy does and returns the answer; how it went
// is in c.
func (g *Gateway) exchange(c *call, method, inside string, body []byte) []byte {
	req, err := http.NewRequestWithContext(c.ctx, method, g.endpoint.url(inside).String(), bytes.NewReader(body))
	if err != nil {
		c.err = err
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	g.endpoint.authorize(req.Header)
	res, err := quiet{g.transport}.RoundTrip(req)
	if err != nil {
		c.err = err
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	if c.err = g.receive(res); c.err != nil {
		return nil
	}
	data, _ := io.ReadAll(io.LimitReader(res.Body, checkBody)) // c.body keeps the error
	return data
}
