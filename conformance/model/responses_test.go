package model

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// A script is played in OpenAI's Responses protocol, over a tool call, as a stream and as a whole.
func TestResponses(t *testing.T) {
	script, err := ParseScript([]byte(`{"rules":[{"match":"go","steps":[{"reasoning":"hm hm","text":"Look at it.","tool":"shell","args":{"command":"ls"}},{"text":"It is {{last_tool_result}}"}]},
		{"match":"long","steps":[{"text":"cut","finish":"length"}]},{"match":"bad","steps":[{"error":{"message":"no"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Script: script, Key: "k", Models: []string{"m"}})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(body string) string {
		_, text := post(t, url+responsesPath, body, http.Header{"Authorization": {"Bearer k"}})
		return text
	}
	const tools = `"tools":[{"type":"namespace","name":"more","tools":[{"type":"function","name":"spawn"}]},{"type":"function","name":"shell"}],`
	text := ask(`{"model":"m","stream":true,` + tools + `"instructions":"title","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}]}`)
	var kinds []string
	var call struct {
		CallID    string `json:"call_id"`
		Arguments string `json:"arguments"`
	}
	said, events := "", 0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var e struct {
			Type   string
			Number int `json:"sequence_number"`
			Delta  string
			Item   json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Number != events {
			t.Fatalf("event %d: %v in %s", events, err, data)
		}
		events++
		switch e.Type {
		case "response.output_text.delta":
			said += e.Delta
		case "response.output_item.done":
			var i item
			if err := json.Unmarshal(e.Item, &i); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, i.Type)
			call.CallID, call.Arguments = i.CallID, i.Arguments
		}
	}
	if got := strings.Join(kinds, " "); got != "reasoning message function_call" || said != "Look at it." || call.Arguments != `{"command":"ls"}` || !strings.Contains(text, `"type":"response.completed"`) {
		t.Errorf("%s, %q, %+v\n%s", got, said, call, text)
	}
	text = ask(`{"model":"m",` + tools + `"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"` + call.CallID + `","name":"shell","arguments":"{}"},
		{"type":"function_call_output","call_id":"` + call.CallID + `","output":"a.txt"}]}`)
	if !strings.Contains(text, `"text":"It is a.txt"`) || !strings.Contains(text, `"status":"completed"`) || !strings.Contains(text, `"input_tokens"`) {
		t.Error(text)
	}
	if text = ask(`{"model":"m",` + tools + `"input":"long"}`); !strings.Contains(text, `"max_output_tokens"`) {
		t.Error(text)
	}
	if text = ask(`{"model":"m","stream":true,` + tools + `"input":"bad"}`); !strings.Contains(text, `"type":"response.failed"`) || !strings.Contains(text, `"message":"no"`) {
		t.Error(text)
	}
	if names := s.Requests()[0].Tools; strings.Join(names, " ") != "spawn shell" {
		t.Errorf("it was offered %q", names)
	}
}
