package gateway

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

const (
	// modelsTime bounds the asking for an endpoint's models.
	modelsTime = 2 * time.Second
	// modelsAge bounds the age of a list of them.
	modelsAge = 10 * time.Minute
	// maxModels bounds the models that are offered.
	maxModels = 300
)

// modelName matches names of models that are offered. They go into agents' configurations.
var modelName = regexp.MustCompile(`^[\w.:/@+-]+$`)

// vendors are the hosts whose models agents know by themselves.
var vendors = []string{"api.openai.com", "api.anthropic.com"}

// listed holds the models of endpoints, by address and key.
var listed struct {
	// mu guards what follows; it is held while an endpoint is asked, so that nobody asks twice.
	mu   sync.Mutex
	when map[string]time.Time
	of   map[string][]string
}

// Models returns the endpoint's models that the session may call. They are asked for once in ten
// minutes. It is nil where the agent's own list is the one to offer: of a vendor's endpoint that
// lists none; of another one it is empty then.
func (g *Gateway) Models(ctx context.Context) []string {
	models := []string{}
	for _, m := range g.allModels(ctx) {
		if MatchModel(g.opts.Models, m) || len(g.opts.Models) == 0 {
			models = append(models, m)
		}
	}
	if len(models) == 0 && slices.Contains(vendors, g.endpoint.root.Hostname()) {
		return nil
	}
	return models
}

// allModels returns the models that the endpoint lists, as far as they can be offered.
func (g *Gateway) allModels(ctx context.Context) []string {
	at := g.endpoint.root.String() + "\n" + g.endpoint.APIKey
	listed.mu.Lock()
	defer listed.mu.Unlock()
	if time.Since(listed.when[at]) < modelsAge {
		return listed.of[at]
	}
	ctx, done := context.WithTimeout(ctx, modelsTime)
	defer done()
	answer, err := g.ask(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		answer = nil
	}
	models := slices.DeleteFunc(slices.Compact(modelsIn(answer)), func(m string) bool { return len(m) > 128 || !modelName.MatchString(m) })
	models = models[:min(len(models), maxModels)]
	if listed.of == nil || len(listed.of) > 100 {
		listed.of, listed.when = map[string][]string{}, map[string]time.Time{}
	}
	listed.of[at], listed.when[at] = models, time.Now()
	return models
}
