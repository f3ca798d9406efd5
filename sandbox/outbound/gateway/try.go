package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Part is the part of a configuration that Try has found wrong.
type Part string

// The parts.
const (
	PartBase   Part = "base"   // the address
	PartKey    Part = "key"    // the key itself
	PartHeader Part = "header" // the key may be right, and the endpoint takes it in another header
	PartModel  Part = "model"  // the model's name
	PartOther  Part = "other"  // the network, or the endpoint itself
)

// A Wrong says which part of a configuration keeps models from answering. Its message is a sentence for people.
type Wrong struct {
	Part    Part
	Message string
}

func (w *Wrong) Error() string { return w.Message }

// Try asks the endpoint for its models, and Endpoint.Model for one token, and tells what is
// wrong apart: an error is a *Wrong. It returns the models that the endpoint lists. Where
// the key is refused, it sends it to the same endpoint in the other usual headers, too.
func (g *Gateway) Try(ctx context.Context) (models []string, err error) {
	list, listed := g.ask(ctx, http.MethodGet, "/v1/models", nil)
	models = modelsIn(list)
	if listed != nil && g.refusesKey(listed) {
		return nil, g.wrongKey(ctx, listed)
	}
	if listed != nil && listed.Status < 400 { // no answer at all, or one that is no API's
		return nil, &Wrong{partOf(listed), listed.Message}
	}
	if g.endpoint.Model == "" {
		if listed != nil && listed.Status == http.StatusNotFound {
			return nil, &Wrong{PartBase, g.noAPI()}
		}
		return models, nil
	}
	answer, failed := g.ask(ctx, http.MethodPost, g.askPath(), g.oneToken())
	switch {
	case failed == nil:
		return models, nil
	case g.refusesKey(failed):
		return models, g.wrongKey(ctx, failed)
	case listed == nil && len(models) > 0 && !slices.Contains(models, g.endpoint.Model), g.namesModel(answer):
		return models, &Wrong{PartModel, fmt.Sprintf("The endpoint %s takes the key and does not know the model %q (%d).", g.endpoint.root, g.endpoint.Model, failed.Status)}
	case failed.Status == http.StatusNotFound && listed != nil:
		return models, &Wrong{PartBase, g.noAPI()}
	}
	return models, &Wrong{partOf(failed), failed.Message}
}

// askPath is the method by which a model answers.
func (g *Gateway) askPath() string {
	if g.endpoint.Protocol == Anthropic {
		return messagesPath
	}
	return chatPath
}

// oneToken asks the model for one token, in each of the protocols.
func (g *Gateway) oneToken() []byte {
	return fmt.Appendf(nil, `{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, g.endpoint.Model)
}

func (g *Gateway) noAPI() string {
	return fmt.Sprintf("There is no API of models at %s: neither its list of models nor the model is found there; check the address.", g.endpoint.root)
}

// refusesKey reports whether an endpoint does not accept the key. Some say so with 400.
func (g *Gateway) refusesKey(err *Error) bool {
	text := strings.ToLower(err.Message)
	return err.Kind == BadKey || err.Status == http.StatusBadRequest && (strings.Contains(text, "api key") || strings.Contains(text, "api_key"))
}

// keyHeaders are those in which endpoints take keys.
var keyHeaders = []string{bearerHeader, "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// wrongKey finds out whether the key is wrong, or its header is.
func (g *Gateway) wrongKey(ctx context.Context, refused *Error) *Wrong {
	for _, header := range keyHeaders {
		if g.endpoint.APIKey == "" || header == g.endpoint.keyHeader() {
			continue
		}
		other := &Gateway{opts: g.opts, log: g.log, mask: g.mask, transport: g.transport, meter: g.meter}
		e := *g.endpoint
		e.KeyHeader = header
		other.endpoint = &e
		answer, err := other.ask(ctx, http.MethodGet, "/v1/models", nil)
		if err == nil && len(modelsIn(answer)) > 0 {
			name := header
			if name == bearerHeader {
				name += ", as a bearer token"
			}
			return &Wrong{PartHeader, fmt.Sprintf("The endpoint %s takes this key, but in another header: %s.", e.root.Host, name)}
		}
	}
	return &Wrong{PartKey, refused.Message}
}

// namesModel reports whether an error is about the model.
func (g *Gateway) namesModel(answer []byte) bool {
	var said struct {
		Error struct {
			Code, Type any
			Message    string
			Param      string
		}
	}
	if json.Unmarshal(answer, &said) != nil {
		return false
	}
	return said.Error.Param == "model" || said.Error.Code == "model_not_found" || strings.Contains(said.Error.Message, g.endpoint.Model)
}

// partOf says which part a failure is about that is not about key and model.
func partOf(err *Error) Part {
	switch err.Kind {
	case Rejected, NotFound:
		return PartBase
	case Unreachable:
		return PartBase
	}
	return PartOther
}

// modelsIn returns the models of a list.
func modelsIn(answer []byte) []string {
	var list struct{ Data []struct{ ID string } }
	if json.Unmarshal(answer, &list) != nil {
		return nil
	}
	var models []string
	for _, m := range list.Data {
		models = append(models, m.ID)
	}
	slices.Sort(models)
	return models
}
