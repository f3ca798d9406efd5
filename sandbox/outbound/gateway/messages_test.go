package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"gander.dev/gander/sandbox/outbound/gateway"
)

// anthropic is a gateway in front of an endpoint of Anthropic's protocol.
func anthropic(t *testing.T, o gateway.Options, h http.HandlerFunc) *door {
	t.Helper()
	o.Endpoint = gateway.Endpoint{BaseURL: serve(t, h), APIKey: key, Protocol: gateway.Anthropic}
	return open(t, o)
}

// post makes a call of a path as Claude Code does.
func (d *door) post(path, body string, header ...string) (*http.Response, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://127.0.0.1:40123"+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", d.Token())
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res, string(data)
}

// The token is replaced by the key in Anthropic's header, the version is there, and of the agent's
// headers only those of the protocol pass.
func TestMessagesCredentials(t *testing.T) {
	d := anthropic(t, gateway.Options{}, func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{
			"X-Api-Key": key, "Authorization": "", "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "a,b", "Anthropic-Workspace-Id": "", "X-Other": "",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.URL.Path != "/v1/messages" || r.URL.RawQuery != "beta=true" {
			t.Errorf("called %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"`+key+`"}]}`)
	})
	res, text := d.post("/v1/messages?beta=true", `{"model":"m"}`, "Anthropic-Beta", "a,b", "Anthropic-Workspace-Id", "w", "X-Other", "x", "Authorization", "Bearer other")
	if res.StatusCode != 200 || strings.Contains(text, key) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages/batches", "/v1/files", "/v1/complete"} {
		if res, text := d.post(path, `{"model":"m"}`); res.StatusCode != 403 || !strings.Contains(text, "/v1/messages") {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	other := upstream(t, func(http.ResponseWriter, *http.Request) {
		t.Error("a message went to an endpoint of OpenAI's protocol")
	})
	if res, _ := other.post("/v1/messages", `{"model":"m"}`); res.StatusCode != 403 {
		t.Errorf("to another protocol: %d", res.StatusCode)
	}
}

const messageStream = `event: message_start
data: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"{\"usage\":{\"output_tokens\":9999}}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":40}}

event: message_stop
data: {"type":"message_stop"}

`

// Usage at the beginning and at the end of an answer is added up, with what came of the cache, and
// prices, budget and allowed models hold. Counting tokens costs nothing.
func TestMessagesPolicy(t *testing.T) {
	calls := new(atomic.Int32)
	d := anthropic(t, gateway.Options{
		Models: []string{"claude-*"}, Budget: gateway.Budget{MaxTokens: 700},
		Prices: map[string]gateway.Price{"claude-x": {Input: 1e6, Output: 2e6, CachedInput: 0.5e6}},
	}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "count_tokens") {
			_, _ = io.WriteString(w, `{"input_tokens":12}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, messageStream)
	})
	if res, text := d.post("/v1/messages?beta=true", `{"model":"gpt-x","stream":true}`); res.StatusCode != 403 || !strings.Contains(text, "model_not_allowed") {
		t.Errorf("another model: %d %s", res.StatusCode, text)
	}
	if res, text := d.post("/v1/messages?model=gpt-x", `{"model":"claude-x"}`); res.StatusCode != 403 {
		t.Errorf("another parameter: %d %s", res.StatusCode, text)
	}
	if res, text := d.post("/v1/messages/count_tokens?beta=true", `{"model":"claude-x"}`); res.StatusCode != 200 || !strings.Contains(text, "12") {
		t.Errorf("counting: %d %s", res.StatusCode, text)
	}
	if e := d.events.last(t, 4); e.Usage != nil {
		t.Errorf("counting cost %+v", e.Usage)
	}
	if res, text := d.post("/v1/messages?beta=true", `{"model":"claude-x","stream":true}`); res.StatusCode != 200 || text != messageStream {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	e := d.events.last(t, 8)
	if u := e.Usage; u == nil || u.Input != 330 || u.Output != 40 || u.Cached != 300 || u.Estimated || e.Spent.Cost != 30+150+80 {
		t.Errorf("used %+v, spent %+v", e.Usage, e.Spent)
	}
	if d.LastFinish() != "length" {
		t.Errorf("ended by %q", d.LastFinish())
	}
	_, _ = d.post("/v1/messages", `{"model":"claude-x","stream":true}`)
	if res, text := d.post("/v1/messages", `{"model":"claude-x","stream":true}`); res.StatusCode != 402 || !strings.Contains(text, "limit is 700") {
		t.Errorf("beyond the budget: %d %s", res.StatusCode, text)
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls went out, want 3", calls.Load())
	}
}

// Tools and sources that the endpoint would reach are refused, and those of the agent are not.
func TestMessagesRemote(t *testing.T) {
	refused := []string{
		`"tools":[{"type":"web_search_20250305","name":"web_search"}]`,
		`"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`,
		`"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`,
		`"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`,
		`"tools":[{"type":"bash_20250124x","name":"bash"}]`,
		`"mcp_servers":[{"type":"url","url":"https://evil.example","name":"x"}]`,
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/a.png"}}]}]`,
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"evil.example/a.pdf"}}]}]`,
		`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/a.png"}}]}]}]`,
		`"input":{"source":{"type":"url","url":"https://evil.example/a.png"}}`,
		`"api_base":"https://evil.example"`,
	}
	passed := []string{
		`"tools":[{"name":"Bash","description":"https://x.example","input_schema":{"type":"object","properties":{"url":{"type":"string"}}}},{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"},{"type":"custom","name":"c"},{"type":"tool_search_tool_regex_20251119","name":"s"}]`,
		`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"WebFetch","input":{"url":"https://x.example","source":"https://x.example"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"https://x.example"}]}]`,
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]`,
		`"system":[{"type":"text","text":"https://x.example","cache_control":{"type":"ephemeral"}}],"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":1}`,
	}
	for _, remote := range []bool{false, true} {
		d := anthropic(t, gateway.Options{Remote: remote}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{}`) })
		for _, part := range refused {
			if res, text := d.post("/v1/messages", `{"model":"m",`+part+`}`); (res.StatusCode == 403 && strings.Contains(text, "remote_not_allowed")) == remote {
				t.Errorf("remote %t: %s: %d %s", remote, part, res.StatusCode, text)
			}
		}
		for _, part := range passed {
			if res, text := d.post("/v1/messages", `{"model":"m",`+part+`}`); res.StatusCode != 200 {
				t.Errorf("remote %t: %s: %d %s", remote, part, res.StatusCode, text)
			}
		}
	}
}

// All that goes out is looked at for closed content, the headers of the protocol included.
func TestMessagesInspect(t *testing.T) {
	d := anthropic(t, gateway.Options{Inspect: func(part []byte) error {
		if strings.Contains(string(part), "secret") {
			return errors.New("closed")
		}
		return nil
	}}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{}`) })
	if res, _ := d.post("/v1/messages", `{"model":"m"}`); res.StatusCode != 200 {
		t.Errorf("without: %d", res.StatusCode)
	}
	if res, _ := d.post("/v1/messages", `{"model":"m","system":"the secret"}`); res.StatusCode != 403 {
		t.Errorf("in the body: %d", res.StatusCode)
	}
	if res, _ := d.post("/v1/messages", `{"model":"m"}`, "Anthropic-Beta", "secret"); res.StatusCode != 403 {
		t.Errorf("in a header: %d", res.StatusCode)
	}
	if res, _ := d.post("/v1/messages?beta=secret", `{"model":"m"}`); res.StatusCode != 403 {
		t.Errorf("in the address: %d", res.StatusCode)
	}
}
