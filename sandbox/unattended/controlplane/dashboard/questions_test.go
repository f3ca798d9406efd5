package dashboard_test

import (
	"encoding/json"
	"testing"
	"time"

	"gander.dev/gander/conformance/browsertest"
	"gander.dev/gander/sandbox/outbound/notify"
	"gander.dev/gander/sandbox/unattended/controlplane/client"
)

// TestQuestionsOnThePage checks that a person answers a permission and a form on the page, whose
// words stay text.
func TestQuestionsOnThePage(t *testing.T) {
	w := newWorld(t)
	w.run("goose")
	p := w.page(browsertest.Options{})
	c, err := client.New(client.Options{URL: w.URL, Token: w.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := func(q notify.Question) <-chan notify.Answer {
		answered := make(chan notify.Answer, 1)
		go func() { // ends with the test's context
			if a, err := c.Ask(t.Context(), q); err == nil {
				answered <- a
			}
		}()
		return answered
	}
	got := func(answered <-chan notify.Answer) notify.Answer {
		t.Helper()
		select {
		case a := <-answered:
			return a
		case <-time.After(time.Minute):
			t.Fatal("no answer in a minute")
			return notify.Answer{}
		}
	}
	permission := ask(notify.Question{
		ID: "question-1", Kind: "permission", Agent: "goose", Project: "shop", Title: "Connect to <img src=x onerror=alert(1)>", Text: `{"host":"evil.example"}`,
		Options: []notify.Option{{ID: "once", Name: "Allow once", Kind: "allow_once"}, {ID: "deny", Name: "Deny", Kind: "reject_once"}},
	})
	form := ask(notify.Question{
		ID: "question-2", Kind: "form", Agent: "goose", Project: "shop", Title: "Which branch?",
		Schema: json.RawMessage(`{"type":"object","properties":{"branch":{"type":"string","title":"Branch"},"port":{"type":"integer"},"push":{"type":"boolean"},"how":{"type":"string","enum":["merge","rebase"]}},"required":["branch","how"]}`),
	})
	p.WaitText("#questions", "Connect to <img src=x onerror=alert(1)>")
	p.WaitText("#questions", "Which branch?")
	p.Shot("questions")
	p.ClickText("#questions", "Deny")
	if a := got(permission); a.Option != "deny" {
		t.Errorf("the permission is %+v", a)
	}
	p.Fill("#questions input[type=text]", "main")
	p.Fill("#questions input[type=number]", "22")
	later := ask(notify.Question{ID: "question-3", Kind: "permission", Agent: "goose", Project: "shop", Title: "Another one", Options: []notify.Option{{ID: "yes", Name: "Yes", Kind: "allow_once"}}})
	p.WaitText("#questions", "Another one")
	p.Wait("the field that is typed in keeps the focus", `document.activeElement.type === "number"`)
	p.ClickText("#questions", "Answer")
	var content map[string]any
	if a := got(form); a.Action != "accept" || json.Unmarshal(a.Content, &content) != nil || content["branch"] != "main" || content["port"] != 22.0 || content["push"] != false || content["how"] != "merge" {
		t.Errorf("the form is %+v", a)
	}
	p.ClickText("#questions", "Yes")
	if a := got(later); a.Option != "yes" {
		t.Errorf("the other permission is %+v", a)
	}
	p.Wait("no question is left", `document.querySelector("#questions").hidden`)
	p.Clean(w.URL)
}
