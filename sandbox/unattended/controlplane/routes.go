package controlplane

import (
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A route is one row of the interface: what is not in the table does not exist.
type route struct {
	method, pattern string
	who             kind
	old             bool // of the succeeded system
	query           bool // the token may be in the query: browsers set no header here
	checked         bool // Origin is checked although it is a GET
	serve           func(*Plane, http.ResponseWriter, *http.Request) error
}

// routes is the interface, and who may use what.
func routes() []route {
	anyone, both := nobody|sandbox|person, sandbox|person
	return []route{
		{method: "GET", pattern: "/health", who: anyone, old: true, serve: (*Plane).health},
		{method: "GET", pattern: "/metrics", who: person, serve: (*Plane).metrics},

		{method: "GET", pattern: "/api/prompt", who: both, old: true, serve: (*Plane).getPrompt},
		{method: "PUT", pattern: "/api/prompt", who: person, old: true, serve: (*Plane).putPrompt},
		{method: "GET", pattern: "/api/prompt/history", who: person, serve: (*Plane).promptHistory},

		{method: "GET", pattern: "/api/agents", who: person, serve: (*Plane).agents},
		{method: "GET", pattern: "/api/runs", who: person, serve: (*Plane).runs},
		{method: "GET", pattern: "/api/runs/{id}", who: person, serve: (*Plane).run},

		{method: "DELETE", pattern: "/api/runs/{id}", who: person, serve: (*Plane).deleteRun},
		{method: "POST", pattern: "/api/runs/{id}/dismiss", who: person, serve: (*Plane).dismissRun},
		{method: "GET", pattern: "/api/runs/{id}/ports", who: person, serve: (*Plane).ports},
		{method: "POST", pattern: "/api/runs/{id}/ports", who: person, serve: (*Plane).changePorts},

		{method: "GET", pattern: "/api/questions", who: person, serve: (*Plane).questions},
		{method: "POST", pattern: "/api/questions", who: both, serve: (*Plane).askQuestion},
		{method: "POST", pattern: "/api/questions/{id}/answer", who: person, serve: (*Plane).answerQuestion},

		{method: "GET", pattern: "/api/schedules", who: person, serve: (*Plane).schedules},
		{method: "POST", pattern: "/api/schedules", who: person, serve: (*Plane).addSchedule},
		{method: "DELETE", pattern: "/api/schedules/{id}", who: person, serve: (*Plane).deleteSchedule},

		{method: "POST", pattern: "/api/sandbox/start", who: person, old: true, serve: (*Plane).start},
		{method: "POST", pattern: "/api/sandbox/stop", who: person, old: true, serve: (*Plane).stop},
		{method: "POST", pattern: "/api/sandbox/pause", who: person, serve: (*Plane).pause},
		{method: "POST", pattern: "/api/sandbox/resume", who: person, serve: (*Plane).resume},
		{method: "POST", pattern: "/api/sandbox/step", who: person, serve: (*Plane).step},
		{method: "POST", pattern: "/api/sandbox/cancel", who: person, serve: (*Plane).cancel},
		{method: "GET", pattern: "/api/sandbox/status", who: person, old: true, serve: (*Plane).status},
		{method: "GET", pattern: "/api/sandbox/files", who: person, old: true, serve: (*Plane).listFiles},
		{method: "GET", pattern: "/api/sandbox/files/read", who: person, old: true, serve: (*Plane).readFile},
		{method: "GET", pattern: "/api/sandbox/files/download", who: person, query: true, serve: (*Plane).downloadFile},

		{method: "POST", pattern: "/api/telemetry/stream", who: both, old: true, serve: (*Plane).takeEvents},
		{method: "POST", pattern: "/api/telemetry/growing", who: both, serve: (*Plane).takeGrowing},
		{method: "POST", pattern: "/api/telemetry/summary", who: both, old: true, serve: (*Plane).takeSummary},
		{method: "GET", pattern: "/api/telemetry/iterations", who: person, old: true, serve: (*Plane).iterations},
		{method: "GET", pattern: "/api/telemetry/iteration/{id}", who: person, old: true, serve: (*Plane).iteration},
		{method: "GET", pattern: "/api/telemetry/vitals", who: person, old: true, serve: (*Plane).vitals},
		{method: "GET", pattern: "/api/telemetry/events/recent", who: person, old: true, serve: (*Plane).recentEvents},
		{method: "GET", pattern: "/api/telemetry/events", who: person, serve: (*Plane).events},

		{method: "GET", pattern: "/api/mailbox", who: both, old: true, serve: (*Plane).getMailbox},
		{method: "PUT", pattern: "/api/mailbox/agent", who: both, old: true, serve: (*Plane).putAgentMail},
		{method: "PUT", pattern: "/api/mailbox/human", who: person, old: true, serve: (*Plane).putHumanMail},

		{method: "POST", pattern: "/api/snapshots/capture", who: person, old: true, serve: (*Plane).capture},
		{method: "GET", pattern: "/api/snapshots", who: person, old: true, serve: (*Plane).snapshots},
		{method: "POST", pattern: "/api/snapshots/{id}/restore", who: person, old: true, serve: (*Plane).restore},
		{method: "DELETE", pattern: "/api/snapshots/{id}", who: person, old: true, serve: (*Plane).deleteSnapshot},
		{method: "GET", pattern: "/api/snapshots/{id}/download", who: person, query: true, serve: (*Plane).downloadSnapshot},

		{method: "GET", pattern: "/ws/live", who: person, old: true, query: true, checked: true, serve: (*Plane).webSocket},
		{method: "GET", pattern: "/api/events", who: person, query: true, checked: true, serve: (*Plane).serverSentEvents},

		{method: "GET", pattern: "/{page...}", who: anyone, serve: (*Plane).page},
	}
}

// newHandler makes the handler of the table.
func (p *Plane) newHandler() http.Handler {
	mux := http.NewServeMux()
	byPattern := map[string][]route{}
	for _, rt := range routes() {
		byPattern[rt.pattern] = append(byPattern[rt.pattern], rt)
	}
	for pattern, rts := range byPattern {
		mux.Handle(pattern, p.methods(rts))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, counting := time.Now(), &countingWriter{ResponseWriter: w}
		headers(w.Header())
		mux.ServeHTTP(counting, r)
		p.counts.request(counting.status)
		p.log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", counting.status, "took", time.Since(begun))
	})
}

// methods answers the requests for one path.
func (p *Plane) methods(rts []route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := p.hosts.checkHost(r); err != nil {
			p.answerError(w, r, err)
			return
		}
		for _, rt := range rts {
			if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead && !rt.checked { // a stream has no head alone
				if err := p.call(w, r, &rt); err != nil {
					p.answerError(w, r, err)
				}
				return
			}
		}
		p.notAllowed(w, r, rts)
	}
}

// call lets a request through to its handler when all is well with it.
func (p *Plane) call(w http.ResponseWriter, r *http.Request, rt *route) error {
	r, err := p.authorise(r, rt)
	if err != nil {
		return err
	}
	if rt.method != http.MethodGet || rt.checked {
		if err := p.hosts.checkOrigin(r); err != nil {
			return err
		}
	}
	return rt.serve(p, w, r)
}

func (p *Plane) notAllowed(w http.ResponseWriter, r *http.Request, rts []route) {
	if rts[0].pattern == "/{page...}" {
		p.answerError(w, r, fail(http.StatusNotFound, "there is no %s here", r.URL.Path))
		return
	}
	var allow []string
	for _, rt := range rts {
		allow = append(allow, rt.method)
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	p.answerError(w, r, fail(http.StatusMethodNotAllowed, "%s takes %s", r.URL.Path, strings.Join(allow, " or ")))
}

func (p *Plane) health(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// page serves the dashboard, and says of everything else that it is not there.
func (p *Plane) page(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("page")
	if name == "" {
		name = "index.html"
	}
	if p.o.Page == nil {
		if name == "index.html" {
			return fail(http.StatusNotFound, "this control plane has no page: use gander loop, or the interface below /api")
		}
	} else if info, err := fs.Stat(p.o.Page, name); err == nil && info.Mode().IsRegular() {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, p.o.Page, name)
		return nil
	}
	return fail(http.StatusNotFound, "there is no %s here", r.URL.Path)
}

// A countingWriter remembers the status for the log and the metrics.
type countingWriter struct {
	http.ResponseWriter
	status int
}

func (w *countingWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController and the WebSocket library reach the connection.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
