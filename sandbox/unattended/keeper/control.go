package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"gander.dev/gander/sandbox/outbound/ports"
	"gander.dev/gander/sandbox/telemetry"
)

// Status is how a run is at the moment, as its keeper sees it.
type Status struct {
	RunID string `json:"runId"`
	// PID is the keeper's process.
	PID int `json:"pid"`
	// Phase is one of the Phase values; Error is why it is the last that it is, or
	// why the sandbox had to be made again.
	Phase Phase  `json:"phase"`
	Error string `json:"error,omitempty"`
	// Sandbox is its id, Container that of its container where it is one.
	Sandbox   string `json:"sandbox,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Container string `json:"container,omitempty"`
	// Made counts the sandboxes that were made, and Seq the events.
	Made int   `json:"made"`
	Seq  int64 `json:"seq"`
	// Iteration is the number of the last one that began.
	Iteration int64 `json:"iteration"`
	// Resting says that no iteration runs, and that none begins before somebody orders it.
	Resting bool `json:"resting,omitempty"`
	// Using counts the usage of the model calls of the iteration that runs.
	Using telemetry.Usage `json:"using"`
	// Vitals are what the sandbox used a moment ago; nil while no loop tells them.
	Vitals *telemetry.Vitals `json:"vitals,omitempty"`
}

// Phase is what a keeper is doing.
type Phase string

// The phases.
const (
	Starting Phase = "starting" // no sandbox yet
	Up       Phase = "up"       // the loop runs
	Waiting  Phase = "waiting"  // the sandbox or the loop has ended; it is made again soon
	Stopping Phase = "stopping" // nothing is to run any more
	Draining Phase = "draining" // nothing runs; what is not sent yet is being sent
	Failed   Phase = "failed"   // the first sandbox could not be made
)

// maxRequest bounds the body of a request to the control socket, in bytes.
const maxRequest = 1 << 20

// handler answers on the control socket. Only this user gets there.
func (k *keeper) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, k.status()) })
	mux.HandleFunc("GET /ready", k.serveReady)
	mux.HandleFunc("GET /alive", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select { // who asks learns of the keeper's end at once
		case <-r.Context().Done():
		case <-k.leaving:
		}
	})
	for path, do := range map[string]func(context.Context) error{
		"POST /stop":   k.stop,
		"POST /pause":  k.pause,
		"POST /resume": k.resume,
		"POST /step":   k.step,
		"POST /cancel": k.cancelIteration,
		"POST /prompt": func(context.Context) error { k.prompts.kick(); return nil },
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { concludeStatus(w, k, do(r.Context())) })
	}
	mux.HandleFunc("POST /ports", func(w http.ResponseWriter, r *http.Request) {
		var o ports.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&o); err != nil {
			http.Error(w, "the order cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		v, err := k.ports.carryOut(r.Context(), o, k.notice)
		conclude(w, v, err)
	})
	mux.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Text string `json:"text"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&body); err != nil {
			http.Error(w, "the text cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		concludeStatus(w, k, k.message(body.Text))
	})
	return mux
}

// serveReady answers when the first sandbox was made, or could not be.
func (k *keeper) serveReady(w http.ResponseWriter, r *http.Request) {
	select {
	case <-k.ready:
		answer(w, k.status())
		k.telling.Do(func() { close(k.told) })
	case <-r.Context().Done():
	}
}

func answer(w http.ResponseWriter, content any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(content) // who asked may be gone
}

func concludeStatus(w http.ResponseWriter, k *keeper, err error) {
	if err != nil {
		conclude(w, nil, err)
		return
	}
	answer(w, k.status())
}

// conclude answers with the content, unless there is an error.
func conclude(w http.ResponseWriter, content any, err error) {
	switch {
	case errors.Is(err, ErrPort):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case errors.Is(err, ErrNoLoop):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, ErrBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		answer(w, content)
	}
}

// serve answers on the control socket until close is called.
func (k *keeper) serve() (closeSocket func(), err error) {
	l, err := k.dir.listen()
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: k.handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	k.work.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			k.log.Error("the control socket does not answer any more", "err", err)
		}
	})
	return func() {
		close(k.leaving)
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		if s.Shutdown(ctx) != nil { // who waits for an answer gets it
			_ = s.Close()
		}
		k.dir.removeSocket()
	}, nil
}

// answerTime bounds how long an ending keeper answers what it was asked before.
const answerTime = 2 * time.Second
