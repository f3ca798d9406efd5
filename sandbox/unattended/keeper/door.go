package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"gander.dev/gander/sandbox/outbound/doorway"
)

// The door to the control plane: processes inside find it in CONTROL_PLANE_URL. It
// passes on what a sandbox may ask, with the run's token, and nothing else: what the
// agent does is told by the loop alone.

const (
	maxLetter    = 64 << 10 // bytes of a message to the operator
	maxDoorConns = 32
	doorIdle     = time.Minute
)

// door answers inside the sandbox.
type door struct {
	plane   *plane
	prompts *prompts
	letter  func([]byte) error // looks at what leaves
	server  *http.Server
	// listener's Dial is the sandbox.Door's.
	listener *doorway.Listener
	work     sync.WaitGroup
}

func newDoor(p *plane, known *prompts, letter func([]byte) error, log *slog.Logger) *door {
	d := &door{plane: p, prompts: known, letter: letter, listener: doorway.New("the control plane", maxDoorConns)}
	d.server = &http.Server{
		Handler: d.handler(), ReadHeaderTimeout: doorIdle, ReadTimeout: doorIdle, IdleTimeout: doorIdle, MaxHeaderBytes: 16 << 10,
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	d.work.Go(func() {
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the door to the control plane stopped", "err", err)
		}
	})
	return d
}

// close ends all connections and returns when nothing of the door runs any more.
func (d *door) close() {
	_ = d.server.Close()
	d.listener.Drain()
	d.work.Wait()
}

func (d *door) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", d.pass)
	mux.HandleFunc("GET /api/prompt", d.servePrompt)
	mux.HandleFunc("GET /api/mailbox", d.pass)
	mux.HandleFunc("PUT /api/mailbox/agent", d.pass)
	mux.HandleFunc("/api/telemetry/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "telemetry is sent by the loop; the agent cannot send any")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "only /health, /api/prompt, /api/mailbox and PUT /api/mailbox/agent can be reached from a sandbox")
	})
	return mux
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // who asked may be gone
}

// pass has the control plane answer.
func (d *door) pass(w http.ResponseWriter, r *http.Request) {
	got, ok := d.forward(w, r)
	if ok {
		give(w, got)
	}
}

// servePrompt is pass; while the control plane is away it answers with the last
// prompt that is known.
func (d *door) servePrompt(w http.ResponseWriter, r *http.Request) {
	if !d.may(w, r, nil) {
		return
	}
	got, err := d.plane.send(r.Context(), http.MethodGet, r.URL.Path, passed(r.Header), nil)
	if err == nil && got.status < http.StatusInternalServerError {
		give(w, got)
		return
	}
	text, known := d.prompts.last()
	if !known {
		refuse(w, http.StatusServiceUnavailable, "the control plane does not answer, and no prompt is known yet; try again later")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(promptBody{Content: text})
}

// forward sends a request on; false when it has answered it itself.
func (d *door) forward(w http.ResponseWriter, r *http.Request) (reply, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLetter))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a message may have %d bytes at most", maxLetter))
		return reply{}, false
	}
	if !d.may(w, r, body) {
		return reply{}, false
	}
	got, err := d.plane.send(r.Context(), r.Method, r.URL.Path, passed(r.Header), body)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the control plane does not answer; try again later")
		return reply{}, false
	}
	return got, true
}

// may reports whether a request may leave as it is; it has refused it if not.
func (d *door) may(w http.ResponseWriter, r *http.Request, body []byte) bool {
	err := d.letter(fmt.Appendf(nil, "%v\n%s", passed(r.Header), body))
	if err != nil {
		refuse(w, http.StatusForbidden, err.Error())
	}
	return err == nil
}

// passed are the headers that go on: nothing that says who asks.
func passed(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{"Content-Type", "If-None-Match"} {
		if v := h.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}

func give(w http.ResponseWriter, r reply) {
	if r.contentType != "" {
		w.Header().Set("Content-Type", r.contentType)
	}
	if r.etag != "" {
		w.Header().Set("ETag", r.etag)
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // who asked may be gone
}
