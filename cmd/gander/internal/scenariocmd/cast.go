package scenariocmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"gander.dev/gander/conformance/model"
)

// A cast is the stand-ins of a scenario's models, on one address of this machine's loopback:
// the name of a model says whose it is.
type cast struct {
	key  string
	log  *slog.Logger
	http *http.Server
	done chan struct{}

	// mu guards what follows.
	mu     sync.Mutex
	parts  map[string]*model.Server   // who answers now, by agent
	played map[string][]*model.Server // all that have answered
}

// modelOf returns the name of an agent's model.
func modelOf(agent string) string { return "scripted-" + agent }

// startCast returns a cast and its address, without /v1.
func startCast(key string, log *slog.Logger) (*cast, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	c := &cast{key: key, log: log, done: make(chan struct{}), parts: map[string]*model.Server{}, played: map[string][]*model.Server{}}
	c.set("", nil) // answers what is no conversation
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		defer close(c.done)
		if err := c.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the scripted models stopped", "err", err)
		}
	}()
	return c, "http://" + l.Addr().String(), nil
}

// set gives an agent's model what it says from now on.
func (c *cast) set(agent string, script *model.Script) {
	s := model.New(model.Options{Script: script, Key: c.key, Log: c.log})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[agent] = s
	c.played[agent] = append(c.played[agent], s)
}

// ServeHTTP has the model answer that a request names.
func (c *cast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var of struct{ Model string }
	_ = json.Unmarshal(body, &of) // what is no JSON is nobody's, and is told so
	c.mu.Lock()
	s := c.parts[strings.TrimPrefix(of.Model, modelOf(""))]
	if s == nil {
		s = c.parts[""]
	}
	c.mu.Unlock()
	s.ServeHTTP(w, r)
}

// told reports whether an agent's model was told a text.
func (c *cast) told(agent, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	quoted, _ := json.Marshal(text) // a text always encodes
	inJSON := string(quoted[1 : len(quoted)-1])
	for _, s := range c.played[agent] {
		for _, q := range s.Requests() {
			for _, m := range q.Messages {
				if strings.Contains(m.Content, text) {
					return true
				}
			}
			if strings.Contains(string(q.Body), inJSON) {
				return true
			}
		}
	}
	return false
}

// close ends all models.
func (c *cast) close() error {
	c.mu.Lock()
	var all []*model.Server
	for _, of := range c.played {
		all = append(all, of...)
	}
	c.mu.Unlock()
	for _, s := range all {
		_ = s.Close() // which only cuts answers: nothing was started
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	err := c.http.Shutdown(ctx)
	if err != nil {
		err = c.http.Close()
	}
	<-c.done
	return err
}
