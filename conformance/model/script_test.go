package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/conformance/model"
)

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ script, want string }{
		{`{`, "unexpected EOF"},
		{`null`, "an object is expected"},
		{`{} {}`, "something after the end"},
		{`{"rule":[]}`, "rule: unknown field; known are default, rules"},
		{`{"rules":{}}`, "rules: object is not a"},
		{`{"rules":[{"match":"a","steps":[]},{"steps":[]}]}`, "rules[1]: a rule has either match or regexp"},
		{`{"rules":[{"regexp":"(","steps":[]}]}`, "rules[0].regexp: error parsing regexp"},
		{`{"rules":[{"match":"a","steps":[{"text":"x"},{"tol":"y"}]}]}`, "rules[0].steps[1].tol: unknown field"},
		{`{"default":[{"text":1}]}`, "default[0].text: number is not a string"},
		{`{"default":[{"delay":"soon"}]}`, `default[0].delay: "soon" is not a duration`},
		{`{"default":[{"hang":-1}]}`, "default[0].hang: -1 is not a duration"},
		{`{"default":[{"tools":[{"name":"x"}]}]}`, "default[0].tools[0].name: unknown field"},
		{`{"default":[{"tools":[{}]}]}`, "default[0].tools[0]: the name of the tool is missing"},
		{`{"default":[{"args":{}}]}`, "default[0]: args and raw need a tool"},
		{`{"default":[{"text":"a","tokens":3}]}`, "default[0]: a step has either text or tokens"},
		{`{"default":[{"tokens":-3}]}`, "default[0]: tokens, times and after cannot be negative"},
		{`{"default":[{"code":"x"}]}`, "default[0]: headers, body and code need a status"},
		{`{"default":[{"status":99}]}`, "default[0]: status 99 is not between"},
		{`{"default":[{"usage":{"prompt":1}}]}`, "default[0].usage.prompt: unknown field"},
	} {
		_, err := model.ParseScript([]byte(tt.script))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %s", tt.script, err, tt.want)
		}
	}
}

func TestReadScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(`{"default":[{"txt":"a"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := model.ReadScript(file); err == nil || !strings.Contains(err.Error(), file+": default[0].txt") {
		t.Errorf("got %v", err)
	}
	if _, err := model.ReadScript(file + "x"); err == nil {
		t.Error("a missing file was read")
	}
}

const turnContext = "\n<turn-context>\nIt is 10:%02d, you said greet. Working directory: /workspace\n</turn-context>"

func TestWhichStepAnswers(t *testing.T) {
	const rules = `{
	  "rules": [
	    {"match": "greet", "steps": [{"text": "hello"}]},
	    {"regexp": "(?i)list +files", "steps": [{"tool": "shell"}, {"tool": "shell"}, {"text": "listed"}]},
	    {"match": "files", "steps": [{"text": "never"}]},
	    {"regexp": "(?s)^two.*lines$", "steps": [{"text": "both"}]}
	  ],
	  "default": [{"text": "default"}]
	}`
	embedded := user("please " + model.Embed(`[{"text":"one","tool":"shell"},{"text":"two"},{"text":"three"}]`) + " now")
	said := func(text string) object { return object{"role": "assistant", "content": text} }
	for _, tt := range []struct {
		name     string
		messages []object
		want     string
	}{
		{"nothing said", nil, "default"},
		{"no rule", []object{user("what")}, "default"},
		{"a rule", []object{system("x"), user("greet me")}, "hello"},
		{"a decoration is not the user's", []object{user("what" + fmt.Sprintf(turnContext, 1))}, "default"},
		{"a rule's first step", []object{user("List  files")}, "call 0"},
		{"its second", []object{user("list files"), calls("call_s0_0_ab"), result("call_s0_0_ab", "r")}, "call 1"},
		{"its last", []object{user("list files"), calls("call_s0_0_ab"), result("", ""), calls("call_s1_0_cd"), result("", "")}, "listed"},
		{
			"parallel calls as separate pairs are one step",
			[]object{user("list files"), calls("call_s0_0_ab"), result("", ""), calls("call_s0_1_ab"), result("", "")},
			"call 1",
		},
		{
			"a decorated message after the result",
			[]object{user("list files"), calls("call_s0_0_ab"), result("", ""), user(fmt.Sprintf(turnContext, 2))},
			"call 1",
		},
		{
			"the image of a result",
			[]object{user("list files"), calls("call_s0_0_ab"), result("", ""), {"role": "user", "content": []object{
				{"type": "text", "text": "the image"}, {"type": "image_url", "image_url": object{"url": "data:,"}},
			}}},
			"call 1",
		},
		{"the next prompt begins anew", []object{user("list files"), calls("call_s0_0_ab"), result("", ""), user("list files")}, "call 0"},
		{"merged prompts", []object{user("list files\ngreet me")}, "hello"},
		{"the other way round", []object{user("greet me\nlist files")}, "call 0"},
		{"a rule over several lines", []object{user("two\nlines")}, "both"},
		{"content in parts", []object{{"role": "user", "content": []object{{"type": "text", "text": "greet"}}}}, "hello"},
		{"past the end", []object{user("list files"), calls("call_s2_0_ab"), result("", "")}, "Done."},
		{"embedded", []object{embedded}, "call 0"},
		{"embedded, next", []object{embedded, calls("call_s0_0_ab"), result("", "")}, "two"},
		{"text and call as separate messages", []object{embedded, said("one"), calls("call_s0_0_ab"), result("", "")}, "two"},
		{"embedded, further prompt", []object{embedded, calls("call_s0_0_ab"), result("", ""), said("two"), user("go on")}, "three"},
		{"embedded, at its end", []object{embedded, calls("call_s0_0_ab"), said("two"), user("a"), said("three"), user("b")}, "default"},
		{"embedded before, a rule now", []object{embedded, calls("call_s0_0_ab"), said("two"), user("greet")}, "hello"},
		{"embedded before a rule", []object{user("greet " + model.Embed(`[{"text":"mine"}]`))}, "mine"},
		{"the last of two", []object{user(model.Embed(`[{"text":"a"}]`) + model.Embed(`[{"text":"b"}]`))}, "b"},
		{"nested", []object{user(model.Embed(`[{"text":"outer","reasoning":"@@[{\"text\":\"inner\"}]@@"}]`))}, "outer"},
		{"broken", []object{user(`@@[{"text":]@@`)}, "Broken script: the script in the prompt is not JSON: invalid character ']' looking for beginning of value"},
		{"unknown field", []object{user(`@@[{"txt":""}]@@`)}, "Broken script: [0].txt: unknown field"},
		{"no script after all", []object{user("greet @@[1] or so")}, "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, model.Options{Script: script(t, rules)})
			r := c.ask(request(tt.messages...))
			got := r.said()
			if len(r.calls) > 0 {
				got = "call " + strings.Split(strings.TrimPrefix(r.calls[0].id, "call_s"), "_")[0]
			}
			if got != tt.want && !strings.HasPrefix(got, tt.want+"; known") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSideRequests(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[{"text":"script"}]}`)})
	body := func(sys string, tools ...string) object {
		b := request(system(sys), user("hello "+model.Embed(`[{"tool":"shell"}]`)))
		var all []object
		for _, name := range tools {
			all = append(all, object{"type": "function", "function": object{"name": name}})
		}
		b["tools"] = all
		return b
	}
	for _, tt := range []struct {
		name string
		body object
		want string
	}{
		{"goose names a session", body("Describe this session in 4 words or less."), "Scripted title"},
		{"opencode names a session", body("You are a title generator."), "Scripted title"},
		{"a summary", body("Summarize the conversation."), "Scripted summary"},
		{"goose asks about a tool", body("x", "platform__tool_by_tool_permission"), "No tool only reads."},
	} {
		if r := c.ask(tt.body); r.said() != tt.want || len(r.calls) != 0 {
			t.Errorf("%s: got %+v", tt.name, r)
		}
	}
	if r := c.ask(body("Set a title when asked.", "shell")); len(r.calls) != 1 {
		t.Errorf("a request with tools: got %+v", r)
	}
	if r := c.ask(body("You help.")); len(r.calls) != 1 {
		t.Errorf("a request without tools that is not on the side: got %+v", r)
	}
	if q := c.server.Requests(); q[0].Step != model.SideStep || q[5].Step != 0 {
		t.Errorf("steps %d and %d", q[0].Step, q[5].Step)
	}
}

func TestTimes(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[{"status":500,"times":2},{"text":"fine"}]}`)})
	decorated := func(i int) object { return request(user("x" + fmt.Sprintf(turnContext, i))) }
	for i, want := range []int{500, 500, 200, 200} {
		if r := c.ask(decorated(i), "agent-session-id", "a"); r.status != want {
			t.Errorf("request %d: status %d, want %d", i, r.status, want)
		}
	}
	if r := c.ask(decorated(9), "agent-session-id", "b"); r.status != 500 {
		t.Errorf("another session: status %d", r.status)
	}
	next := request(user("x"), object{"role": "assistant", "content": "fine"}, user("x"))
	if r := c.ask(next, "agent-session-id", "a"); r.status != 500 {
		t.Errorf("the next prompt: status %d", r.status)
	}
}

func TestTemplates(t *testing.T) {
	c := start(t, model.Options{Script: script(t, `{"default":[
	  {"tool":"write","args":{"path":"{{cwd}}/a","lines":["{{model}}",1]}},
	  {"text":"it said {{last_tool_result}}"}]}`)})
	prompt := user("go" + fmt.Sprintf(turnContext, 3))
	r := c.ask(request(system("Working directory: /elsewhere"), prompt))
	if want := `{"lines":["m",1],"path":"/workspace/a"}`; len(r.calls) != 1 || r.calls[0].args != want {
		t.Fatalf("got %+v", r.calls)
	}
	if r := c.ask(request(prompt, calls(r.calls[0].id), result(r.calls[0].id, "a \"quoted\" thing"))); r.said() != `it said a "quoted" thing` {
		t.Errorf("got %q", r.said())
	}
}
