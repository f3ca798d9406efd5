package controlplane

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/telemetry"
)

// dump is all that is in the database.
func dump(t testing.TB, p *Plane) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"runs", "iterations", "events", "vitals", "prompts", "mailbox", "snapshots", "facts", "sqlite_sequence"} {
		rows, err := p.db.read.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				fmt.Fprintf(&out, "%v|", *v.(*any))
			}
			fmt.Fprintf(&out, " of %s\n", table)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	return out.String()
}

// send makes a request straight to the handler.
func send(t testing.TB, p *Plane, token, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:3000"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w
}

const tokenOfPerson = "a token of a person"

func batchOf(t testing.TB, run string, events ...telemetry.Event) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"runId": run, "events": events})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func numbered(from, to int64) (events []telemetry.Event) {
	for seq := from; seq <= to; seq++ {
		events = append(events, telemetry.Event{Seq: seq, Iteration: 1, Type: telemetry.Text, Summary: fmt.Sprint("event ", seq), Time: 1000 + seq})
	}
	return events
}

// Bodies that are wrong, or half right, change nothing and say why.
func TestBadBodiesChangeNothing(t *testing.T) {
	p := newPlane(t, func(o *Options) { o.Compat = true })
	token := addRun(t, p, "run-00001")
	other := addRun(t, p, "run-00002")
	if w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "run-00001", numbered(1, 3)...)); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := send(t, p, tokenOfPerson, "POST", "/api/telemetry/stream", `{"iterationId":1,"events":[{"type":"iteration_start","summary":"s"}]}`); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	long := `{"iterationId":1,"events":[{"type":"text","summary":"` + strings.Repeat("x", maxBody) + `"}]}`
	many := batchOf(t, "run-00001", numbered(4, 4+maxBatch)...)
	event := func(e string) string { return `{"runId":"run-00001","events":[` + e + `]}` }
	const stream, summary = "POST /api/telemetry/stream", "POST /api/telemetry/summary"
	tests := []struct {
		name, token, route, body string
		status                   int
	}{
		{"nothing", token, stream, ``, 400},
		{"no JSON", token, stream, `{"events":[`, 400},
		{"a list", token, stream, `[]`, 400},
		{"JSON and more", token, stream, `{"events":[]} x`, 400},
		{"no events", token, stream, `{"iterationId":1}`, 400},
		{"events null", token, stream, `{"iterationId":1,"events":null}`, 400},
		{"neither, as V", tokenOfPerson, stream, `{}`, 400},
		{"events is no list", token, stream, `{"iterationId":1,"events":{}}`, 400},
		{"an event is no object", token, stream, event(`1`), 400},
		{"seq is a text", token, stream, event(`{"seq":"4","type":"text"}`), 400},
		{"seq is a fraction", token, stream, event(`{"seq":4.5,"type":"text"}`), 400},
		{"seq is huge", token, stream, event(`{"seq":1e300,"type":"text"}`), 400},
		{"seq below 0", token, stream, event(`{"seq":-4,"type":"text"}`), 422},
		{"seq beyond JavaScript", token, stream, event(`{"seq":9007199254740993,"type":"text"}`), 422},
		{"no type", token, stream, event(`{"seq":4,"summary":"x"}`), 422},
		{"a long type", token, stream, event(`{"seq":4,"type":"` + strings.Repeat("t", 65) + `"}`), 422},
		{"the second is wrong", token, stream, event(`{"seq":4,"type":"text","iterationId":2},{"seq":5}`), 422},
		{"a gap in the batch", token, stream, event(`{"seq":4,"type":"text"},{"seq":6,"type":"text"}`), 422},
		{"backwards", token, stream, event(`{"seq":5,"type":"text"},{"seq":4,"type":"text"}`), 422},
		{"half numbered", token, stream, event(`{"seq":4,"type":"text"},{"type":"text"}`), 422},
		{"unnumbered from a keeper", token, stream, event(`{"type":"text","iterationId":1}`), 422},
		{"unnumbered for a numbered run", tokenOfPerson, stream, event(`{"type":"text","iterationId":1}`), 422},
		{"a gap before the batch", token, stream, event(`{"seq":5,"type":"text"}`), 409},
		{"a gap after new ones of another run", token, stream, `{"runId":"run-00002","events":[{"seq":1,"type":"text"}]}`, 403},
		{"another run's token", other, stream, batchOf(t, "run-00001", numbered(4, 5)...), 403},
		{"numbered without a run", tokenOfPerson, stream, `{"events":[{"seq":1,"type":"text"}]}`, 422},
		{"an impossible run", tokenOfPerson, stream, `{"runId":"../../etc","events":[{"seq":1,"type":"text"}]}`, 400},
		{"a new run with a gap", tokenOfPerson, stream, `{"runId":"elsewhere-1","events":[{"seq":2,"type":"text"}]}`, 409},
		{"iteration below 0", token, stream, event(`{"seq":4,"type":"text","iterationId":-1}`), 422},
		{"usage below 0", token, stream, event(`{"seq":4,"type":"iteration_end","iterationId":1,"usage":{"input":-1}}`), 422},
		{"vitals below 0", token, stream, event(`{"seq":4,"type":"iteration_end","iterationId":1,"vitals":{"cpu":-1}}`), 422},
		{"counts below 0", token, stream, event(`{"seq":4,"type":"iteration_end","iterationId":1,"actionCount":-1}`), 422},
		{"the end of nothing", token, stream, event(`{"seq":4,"type":"iteration_end"}`), 422},
		{"no state", token, stream, event(`{"seq":4,"type":"state"}`), 422},
		{"too large", token, stream, long, 413},
		{"too many", token, stream, many, 413},
		{"unnumbered without an iteration", tokenOfPerson, stream, `{"events":[{"type":"text","summary":"x"}]}`, 400},
		{"summary: nothing", tokenOfPerson, summary, ``, 400},
		{"summary: no iteration", tokenOfPerson, summary, `{"summary":"x"}`, 400},
		{"summary: none", tokenOfPerson, summary, `{"iterationId":1}`, 400},
		{"summary: an empty vital", tokenOfPerson, summary, `{"iterationId":1,"summary":"x","vitals":{"cpu":,"memory":1,"disk":1}}`, 400},
		{"summary: vitals in words", tokenOfPerson, summary, `{"iterationId":1,"summary":"x","vitals":{"cpu":"high"}}`, 400},
		{"summary: counts below 0", tokenOfPerson, summary, `{"iterationId":1,"summary":"x","actionCount":-1}`, 422},
		{"summary of a numbered run", token, summary, `{"iterationId":1,"summary":"x"}`, 422},
		{"a prompt of nothing", tokenOfPerson, "PUT /api/prompt", `{"content":"  "}`, 400},
		{"a prompt of a number", tokenOfPerson, "PUT /api/prompt", `{"content":1}`, 400},
		{"a prompt for no run", tokenOfPerson, "PUT /api/prompt?run=none", `{"content":"x"}`, 404},
		{"mail of nothing", tokenOfPerson, "PUT /api/mailbox/human", `{"message":""}`, 400},
		{"mail of another run", token, "PUT /api/mailbox/agent?run=run-00002", `{"message":"x"}`, 403},
		{"mail as the person", token, "PUT /api/mailbox/human", `{"message":"x"}`, 403},
		{"an agent that is none", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"emacs"}`, 400},
		{"no agent", tokenOfPerson, "POST /api/sandbox/start", `{}`, 400},
		{"a start in halves", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose"`, 400},
		{"limits below 0", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","limits":{"iterations":-1}}`, 422},
		{"idle beyond the iteration", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","limits":{"iteration":10,"idle":20}}`, 422},
		{"a pace of years", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","pace":1e12}`, 422},
		{"a driver that is none", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","sandbox":"vm"}`, 400},
		{"a workspace that is none", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","workspace":"/nowhere/at/all"}`, 400},
		{"a relative workspace", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","workspace":"here"}`, 400},
		{"the root as workspace", tokenOfPerson, "POST /api/sandbox/start", `{"agentType":"goose","workspace":"/"}`, 400},
		{"our own state as workspace", tokenOfPerson, "POST /api/sandbox/start", fmt.Sprintf(`{"agentType":"goose","workspace":%q}`, p.o.Dir), 400},
		{"what contains our state", tokenOfPerson, "POST /api/sandbox/start", fmt.Sprintf(`{"agentType":"goose","workspace":%q}`, p.o.Dir+"/.."), 400},
		{"a snapshot that is none", tokenOfPerson, "DELETE /api/snapshots/7", ``, 404},
	}
	before := dump(t, p)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.route, " ")
			w := send(t, p, tt.token, method, path, tt.body)
			var answer struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != tt.status || answer.Error == "" {
				t.Errorf("%d %s, want %d and a sentence", w.Code, w.Body, tt.status)
			}
			if after := dump(t, p); after != before {
				t.Errorf("the database was changed:\n%s\nbefore:\n%s", after, before)
				before = after
			}
		})
	}
	t.Run("a form of a page", func(t *testing.T) {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ";;"} {
			w := send(t, p, tokenOfPerson, "PUT", "/api/prompt", `{"content":"x"}`, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
			if w.Code != 415 || dump(t, p) != before {
				t.Errorf("%s: %d", kind, w.Code)
			}
		}
	})
}

// A batch again, and one that overlaps, changes nothing that is there; 409 says from
// where to send.
func TestIngestIsIdempotent(t *testing.T) {
	p := newPlane(t)
	token := addRun(t, p, "run-00001")
	post := func(from, to int64) (int, map[string]any) {
		w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "", numbered(from, to)...))
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		return w.Code, body
	}
	steps := []struct{ from, to, status, last int64 }{
		{1, 5, 200, 5}, {1, 5, 200, 5}, {3, 8, 200, 8}, {10, 12, 409, 8}, {9, 12, 200, 12}, {2, 2, 200, 12},
	}
	for _, s := range steps {
		status, body := post(s.from, s.to)
		if int64(status) != s.status || body["lastSeq"] != float64(s.last) {
			t.Errorf("events %d to %d: %d %v, want %d and lastSeq %d", s.from, s.to, status, body, s.status, s.last)
		}
	}
	events, err := readEvents(t.Context(), p.db.read, eventsSince, 0, 100)
	if err != nil || len(events) != 12 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, e := range events {
		if e.event.Seq != int64(i+1) || e.id != int64(i+1) {
			t.Errorf("event %d has number %d and id %d", i, e.event.Seq, e.id)
		}
	}
}

// The first event of an iteration ends the one before when nobody did; what comes late
// for an iteration that has ended stays with it.
func TestInterruptedIterations(t *testing.T) {
	p := newPlane(t)
	token := addRun(t, p, "run-00001")
	events := []telemetry.Event{
		{Seq: 1, Iteration: 1, Type: telemetry.IterationStart, Time: 10},
		{Seq: 2, Iteration: 1, Type: telemetry.ToolUse, Time: 11},
		{Seq: 3, Iteration: 2, Type: telemetry.IterationStart, Time: 20},
		{Seq: 4, Iteration: 2, Type: telemetry.IterationEnd, Time: 30, Status: "timeout", Actions: 4, Usage: &telemetry.Usage{Input: 1, Output: 2, Total: 3, Cost: 0.5}},
		{Seq: 5, Iteration: 1, Type: telemetry.Error, Time: 31},
		{Seq: 6, Iteration: 3, Type: telemetry.IterationStart, Time: 40},
		{Seq: 7, Type: telemetry.StateChange, State: telemetry.Done, Reason: "all is done", Time: 50},
		{Seq: 8, Type: telemetry.StateChange, State: telemetry.Running, Time: 51},
	}
	if w := send(t, p, token, "POST", "/api/telemetry/stream", batchOf(t, "", events...)); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	rows, err := readIterations(t.Context(), p.db.read, iterationsOfAll, 10, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%d %s %d/%d %s-%s", r.Seq, r.Outcome, r.ActionCount, r.ErrorCount, r.StartedAt[17:23], (*r.EndedAt)[17:23]))
	}
	if s := strings.Join(got, "; "); s != "3 interrupted 0/0 00.040-00.050; 2 timeout 4/0 00.020-00.030; 1 interrupted 1/1 00.010-00.020" {
		t.Errorf("the iterations are %s", s)
	}
	run, err := readRun(t.Context(), p.db.read, whereID, "run-00001")
	if err != nil || run.State != telemetry.Done || run.Desired != DesiredStopped || run.live() || run.Usage.Total != 3 || run.LastSeq != 8 {
		t.Errorf("the run is %+v, %v", run, err)
	}
}

// Any body, by anyone who may send one: an answer, never a panic, and the database is
// changed only by those that are taken.
func FuzzIngest(f *testing.F) {
	for _, seed := range []string{
		`{"runId":"run-00001","events":[{"seq":1,"type":"text","summary":"a"}]}`,
		`{"iterationId":1,"events":[{"type":"iteration_start","summary":"s","timestamp":"2026-01-01T00:00:00Z"}]}`,
		`{"runId":"elsewhere-1","events":[{"seq":1,"type":"state","state":"failed"},{"seq":2,"type":"iteration_end","iterationId":9,"status":"ok","usage":{"input":1}}]}`,
		`{"iterationId":3,"summary":"x","actionCount":1,"errorCount":0,"vitals":{"cpu":1,"memory":2,"disk":3}}`,
		`{"events":[{"seq":1,"type":"\u0000","content":"\ud800"}]}`, `{}`, `[]`, ``,
	} {
		f.Add(seed, true, true)
		f.Add(seed, false, false)
	}
	p := newPlane(f)
	token := addRun(f, p, "run-00001")
	f.Fuzz(func(t *testing.T, body string, asSandbox, stream bool) {
		who, path := tokenOfPerson, "/api/telemetry/summary"
		if asSandbox {
			who = token
		}
		if stream {
			path = "/api/telemetry/stream"
		}
		before := sha256.Sum256([]byte(counted(t, p)))
		w := send(t, p, who, "POST", path, body)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if after := sha256.Sum256([]byte(counted(t, p))); w.Code != 200 && after != before {
			t.Fatalf("refused with %d %s, and yet the database was changed", w.Code, w.Body)
		}
	})
}

// counted says how much there is, for a database that has grown too large to dump.
func counted(t testing.TB, p *Plane) string {
	t.Helper()
	var s string
	err := p.db.read.QueryRowContext(t.Context(), `SELECT (SELECT COUNT(*) || ',' || SUM(last_seq) || ',' || COUNT(stopped) FROM runs) || ';' ||
		(SELECT COUNT(*) FROM events) || ';' || (SELECT COUNT(*) || ',' || COUNT(ended) FROM iterations) || ';' || (SELECT COUNT(*) FROM vitals)`).Scan(&s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
