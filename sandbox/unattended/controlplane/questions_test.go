package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/unattended/controlplane"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
	"gander.dev/gander/sandbox/unattended/controlplane/planetest"
)

// waits returns the questions that wait, when there are so many.
func waits(t *testing.T, s *planetest.Server, n int) []any {
	t.Helper()
	for patience := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all := want(t, s, 200, "GET", "/api/questions", nil).body["questions"].([]any)
		if len(all) == n {
			return all
		}
		if time.Now().After(patience) {
			t.Fatalf("%d questions wait, want %d", len(all), n)
		}
	}
}

// TestQuestions checks that a person answers questions of sessions and runs on the page, once, with
// what the question offers, and that a sandbox's token answers none.
func TestQuestions(t *testing.T) {
	s := planetest.Start(t, planetest.Options{})
	run := begin(t, s, nil)
	ask := func(token string, q notify.Question) chan notify.Answer {
		c, err := client.New(client.Options{URL: s.URL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		answered := make(chan notify.Answer, 1)
		go func() {
			defer close(answered)
			if a, err := c.Ask(t.Context(), q); err == nil {
				answered <- a
			}
		}()
		return answered
	}
	permission := ask(s.Token, notify.Question{
		ID: "question-1", Kind: "permission", Agent: "goose", Session: "s1", Project: "shop", Dir: "/home/me/shop", Title: "Run rm -rf build",
		Options: []notify.Option{{ID: "yes", Name: "Allow", Kind: "allow_once"}, {ID: "no", Name: "Deny", Kind: "reject_once"}},
	})
	row := waits(t, s, 1)[0].(map[string]any)
	if row["title"] != "Run rm -rf build" || row["project"] != "shop" || row["Dir"] != nil || row["dir"] != nil {
		t.Errorf("there waits %v", row)
	}
	form := ask(s.Fleet.RunToken(run), notify.Question{ID: "question-2", Kind: "form", Title: "Which port?", Agent: "not me", Schema: json.RawMessage(`{"type":"object"}`)})
	if row := waits(t, s, 2)[1].(map[string]any); row["runId"] != run || row["agentType"] != "goose" {
		t.Errorf("of a run there waits %v", row)
	}
	for status, bad := range map[int]string{422: `{"optionId":"maybe"}`, 400: `[]`} {
		want(t, s, status, "POST", "/api/questions/question-1/answer", json.RawMessage(bad))
	}
	want(t, s, 422, "POST", "/api/questions/question-2/answer", json.RawMessage(`{"action":"accept","content":3}`))
	want(t, s, 404, "POST", "/api/questions/question-3/answer", json.RawMessage(`{"optionId":"yes"}`))
	if r := askAs(t, s, s.Fleet.RunToken(run), "/api/questions/question-2/answer", `{"action":"decline"}`); r != http.StatusForbidden {
		t.Errorf("a sandbox answered its own question: %d", r)
	}
	if r := askAs(t, s, s.Fleet.RunToken(run), "/api/questions", `{"id":"question-1","kind":"form","title":"x"}`); r != http.StatusConflict {
		t.Errorf("a sandbox waits for the answer to another's question: %d", r)
	}
	want(t, s, 200, "POST", "/api/questions/question-1/answer", json.RawMessage(`{"optionId":"no"}`))
	if a := <-permission; a.Option != "no" {
		t.Errorf("the answer is %+v", a)
	}
	want(t, s, 200, "POST", "/api/questions/question-2/answer", json.RawMessage(`{"action":"accept","content":{"port":1}}`))
	if a := <-form; a.Action != "accept" || string(a.Content) != `{"port":1}` {
		t.Errorf("the form is %+v", a)
	}
	waits(t, s, 0)
	for n := range 6 {
		ask(s.Fleet.RunToken(run), notify.Question{ID: fmt.Sprintf("question-of-run-%d", n), Kind: "form", Title: "Which port?", Schema: json.RawMessage(`{"type":"object"}`)})
	}
	waits(t, s, 5)
	full := fmt.Sprintf(`{"id":"question-of-run-%d","kind":"form","title":"x"}`, 7)
	if r := askAs(t, s, s.Fleet.RunToken(run), "/api/questions", full); r != http.StatusServiceUnavailable {
		t.Errorf("a run's sixth question gets status %d", r)
	}
}

// TestQuestionsUnderCompat checks that nothing is answered where everybody is taken for the person.
func TestQuestionsUnderCompat(t *testing.T) {
	s := planetest.Start(t, planetest.Options{Change: func(o *controlplane.Options) { o.Compat = true }})
	q := json.RawMessage(`{"id":"question-1","kind":"form","title":"x"}`)
	for _, token := range []string{s.Token, ""} {
		for _, path := range []string{"/api/questions", "/api/questions/question-1/answer"} {
			if code := askAs(t, s, token, path, string(q)); code != http.StatusForbidden && (token != "" || code != http.StatusUnauthorized) {
				t.Errorf("%s with the token %q: %d", path, token, code)
			}
		}
	}
}

// askAs sends a body with a token, and returns the status.
func askAs(t *testing.T, s *planetest.Server, token, path, body string) int {
	t.Helper()
	return ask(t, s, token, "POST", path, json.RawMessage(body)).status
}
