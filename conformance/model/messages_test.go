package model

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func post(t *testing.T, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// A script is played in Anthropic's protocol, over a tool call, as a stream and as a whole.
func TestMessages(t *testing.T) {
	script, err := ParseScript([]byte(`{"rules":[{"match":"go","steps":[{"reasoning":"hm","text":"Look.","tool":"Bash","args":{"command":"ls"}},{"text":"It is {{last_tool_result}}"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Script: script, Key: "k", Models: []string{"m"}})
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(body string) (int, string) {
		return post(t, url+messagesPath, body, http.Header{"Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {"k"}})
	}
	const tools = `"tools":[{"name":"Bash","input_schema":{}}],`
	_, text := ask(`{"model":"m","stream":true,` + tools + `"system":[{"type":"text","text":"title"}],"messages":[{"role":"user","content":"go"}]}`)
	var kinds []string
	id, arguments := "", ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var e struct {
			Type  string
			Block block `json:"content_block"`
			Delta struct {
				Partial string `json:"partial_json"`
				Stop    string `json:"stop_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "content_block_start" {
			kinds = append(kinds, e.Block.Type)
		}
		id += e.Block.ID
		arguments += e.Delta.Partial
		if e.Delta.Stop != "" {
			kinds = append(kinds, e.Delta.Stop)
		}
	}
	if got := strings.Join(kinds, " "); got != "thinking text tool_use tool_use" || arguments != `{"command":"ls"}` {
		t.Errorf("%s with %s\n%s", got, arguments, text)
	}
	status, text := ask(`{"model":"m",` + tools + `"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"Bash","input":{"command":"ls"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":[{"type":"text","text":"a.txt"}]}]}]}`)
	if status != 200 || !strings.Contains(text, `"text":"It is a.txt"`) || !strings.Contains(text, `"stop_reason":"end_turn"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(`{"model":"other","messages":[]}`); status != 404 {
		t.Errorf("another model: %d", status)
	}
}
