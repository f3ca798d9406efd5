package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/gateway"
)

func TestTokenIsNeeded(t *testing.T) {
	reached := false
	d := upstream(t, func(http.ResponseWriter, *http.Request) { reached = true })
	for _, header := range []string{
		"", "Authorization: Bearer", "Authorization: Bearer x", "Authorization: " + d.Token(), "Authorization: Basic " + d.Token(),
		"X-Api-Key: x", "Authorization: Bearer " + d.Token() + "x", "Authorization: Bearer " + key, "Cookie: " + d.Token(),
	} {
		answer := d.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n" + header + "\r\n\r\n{}")
		if !strings.Contains(answer, " 401 ") || !strings.Contains(answer, "invalid_api_key") {
			t.Errorf("%q got %s", header, answer)
		}
	}
	if reached {
		t.Error("the endpoint was reached without the token")
	}
	other := upstream(t, func(http.ResponseWriter, *http.Request) {})
	if other.Token() == d.Token() {
		t.Error("two gateways have one token")
	}
}

// policed is a gateway with a policy, in front of an endpoint that says what each
// call used.
func policed(t *testing.T, o gateway.Options, usage string) (*door, *atomic.Int32) {
	t.Helper()
	calls := new(atomic.Int32)
	o.Endpoint = gateway.Endpoint{APIKey: key, BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"choices":[]`+usage+`}`)
	})}
	return open(t, o), calls
}

// Whatever two readers could take for different models does not go out.
func TestOnlyAllowedModels(t *testing.T) {
	d, calls := policed(t, gateway.Options{Models: []string{"small", "qwen/*"}}, "")
	tests := []struct {
		body   string
		status int
	}{
		{`{"model":"small"}`, 200},
		{` {"messages":[{"model":"large"}],"model":"qwen/3-8b","stream":false}`, 200},
		{`{"mod\u0065l":"small"}`, 200},
		{`{"model":"large"}`, 403},
		{`{"model":"smaller"}`, 403},
		{`{"model":"qwen"}`, 403},
		{`{"mod\u0065l":"large"}`, 403},
		{`{"model":"small","model":"large"}`, 400},
		{`{"model":"large","mod\u0065l":"small"}`, 400},
		{`{"model":"small","Model":"large"}`, 400},
		{`{"MODEL":"small"}`, 400},
		{`{"model":"small"}{"model":"large"}`, 400},
		{`{"model":["small"]}`, 400},
		{`{"model":"small"`, 400},
		{`{}`, 400},
		{`[]`, 400},
		{`null`, 400},
		{``, 400},
		{`model=large`, 400},
		{"\xef\xbb\xbf" + `{"model":"small"}`, 400},
		{`{"model":"small",}`, 400},
	}
	good := int32(0)
	for _, tt := range tests {
		for _, body := range []io.Reader{strings.NewReader(tt.body), io.MultiReader(strings.NewReader(tt.body))} {
			res, err := d.client.Do(d.request(t.Context(), body))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("%s (%T): %d %s", tt.body, body, res.StatusCode, text)
			}
			if tt.status == 200 {
				good++
			} else if !json.Valid(text) {
				t.Errorf("%s: the error is no JSON: %s", tt.body, text)
			}
		}
	}
	if calls.Load() != good {
		t.Errorf("the endpoint was called %d times, want %d", calls.Load(), good)
	}
	_, said := d.ask(`{"model":"large"}`)
	if !strings.Contains(said, "model_not_allowed") || !strings.Contains(said, "small, qwen/*") {
		t.Errorf("refused with %s", said)
	}
}

func TestBudget(t *testing.T) {
	usage := `,"usage":{"prompt_tokens":30,"completion_tokens":10,"total_tokens":40,"prompt_tokens_details":{"cached_tokens":20}}`
	meter := gateway.NewMeter()
	o := gateway.Options{
		Meter: meter, Budget: gateway.Budget{MaxTokens: 100},
		Prices: map[string]gateway.Price{"m*": {Input: 1000, Output: 10_000, CachedInput: 100}, "*": {Input: 1e9}},
	}
	d, calls := policed(t, o, usage)
	for i := range 3 {
		if res, text := d.ask(`{"model":"mm"}`); res.StatusCode != 200 {
			t.Fatalf("call %d: %d %s", i, res.StatusCode, text)
		}
	}
	e := d.events.last(t, 6)
	want := gateway.Spent{Calls: 3, Input: 90, Output: 30, Cached: 60, Cost: 3 * (10*1000 + 20*100 + 10*10_000) / 1e6}
	if e.Spent != want || meter.Spent() != want || e.Model != "mm" {
		t.Errorf("spent %+v, want %+v; model %q", e.Spent, want, e.Model)
	}
	check := func(d *door) {
		t.Helper()
		res, text := d.ask(`{"model":"mm"}`)
		if res.StatusCode != 402 || !strings.Contains(text, "120 tokens") || !strings.Contains(text, "limit is 100 (policy.model.maxTokens)") {
			t.Errorf("beyond the budget: %d %s", res.StatusCode, text)
		}
	}
	check(d)
	again, more := policed(t, o, usage) // an agent that started again
	check(again)
	if calls.Load() != 3 || more.Load() != 0 {
		t.Errorf("%d and %d calls went out", calls.Load(), more.Load())
	}
	if err := d.Check(t.Context()); err != nil { // nor is listing the models a call
		t.Error(err)
	}
}

func TestCostIsLimited(t *testing.T) {
	d, calls := policed(t, gateway.Options{
		Budget: gateway.Budget{MaxCost: 0.5}, Prices: map[string]gateway.Price{"m": {Input: 1000}},
	}, `,"usage":{"input_tokens":600,"output_tokens":9,"input_tokens_details":{"cached_tokens":100}}`)
	if res, text := d.ask(`{"model":"other"}`); res.StatusCode != 403 || !strings.Contains(text, "no price of the model") {
		t.Errorf("a model without a price: %d %s", res.StatusCode, text)
	}
	if res, text := d.ask(`{"model":"m"}`); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if res, text := d.ask(`{"model":"m"}`); res.StatusCode != 402 || !strings.Contains(text, "has cost 0.6, and its limit is 0.5 (policy.model.maxCost)") {
		t.Errorf("beyond the budget: %d %s", res.StatusCode, text)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls went out", calls.Load())
	}
}

// Calls that run at the same time cannot overdraw a budget by more than a few.
func TestBudgetOfManyCallsAtOnce(t *testing.T) {
	d, calls := policed(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 10}}, `,"usage":{"prompt_tokens":10}`)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			res, err := d.client.Do(d.request(t.Context(), strings.NewReader(`{"model":"m"}`)))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
	wg.Wait()
	if n := calls.Load(); n == 0 || n > 4 {
		t.Errorf("%d calls went out, which is not 1 to 4", n)
	}
}

// What an endpoint does not say is estimated, and an agent that hangs up early is
// not free of charge.
func TestEstimates(t *testing.T) {
	big := `{"model":"m","stream":true,"stream_options":null,"x":"` + strings.Repeat("x", 4000) + `"}`
	d := open(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 25 {
			_, _ = io.WriteString(w, "data: {}\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		if r.Header.Get("X-Request-Id") == "hang" {
			<-r.Context().Done()
		}
	})}})
	d.ask(big)
	u := d.events.last(t, 2).Usage
	if u == nil || !u.Estimated || u.Output != 25 || u.Input < 1000 || u.Input > 1100 {
		t.Errorf("usage %+v", u)
	}
	res, err := d.client.Do(d.request(t.Context(), strings.NewReader(big), "X-Request-Id", "hang"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(res.Body, make([]byte, 10))
	_ = res.Body.Close()
	e := d.events.last(t, 4)
	if e.Kind != gateway.Cancelled || e.Usage == nil || e.Spent.Input < 2000 || e.Spent.Estimated != 2 {
		t.Errorf("after hanging up: %s, usage %+v, spent %+v", e.Kind, e.Usage, e.Spent)
	}
}

// A call that says "usage" of itself does not make its answer say so, and an answer that was
// not read to its end counts no less than what was read of it.
func TestUsageOfCallsGivenUp(t *testing.T) {
	body := `{"model":"m","stream":%t,"x":"` + strings.Repeat("x", 4000) + `"}`
	echo := `"tools":[{"parameters":{"properties":{"usage":{"input_tokens":1,"output_tokens":1}}}}],"usage":`
	created := `data: {"type":"response.created","response":{` + echo + `null}}` + "\n\n"
	delta := `data:{"type":"response.output_text.delta","delta":"\"usage\":{\"output_tokens\":1}"}` + "\n\n"
	early := `data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\n"
	for _, tt := range []struct {
		name, answer string
		stream       bool
		want         gateway.Usage // with an input of 0 for that of the estimate
		whole        bool          // the answer is read to its end
	}{
		{name: "a stream that repeats its tools", stream: true, answer: created + strings.Repeat(delta, 20), want: gateway.Usage{Output: 21, Estimated: true}},
		{name: "the same, with its end", stream: true, whole: true, answer: created + delta + `data:{"type":"response.completed","response":{"output":[{"usage":{"input_tokens":1}}],` + echo + `{"input_tokens":7,"output_tokens":9,"total_tokens":16}}}` + "\r\n\r\n", want: gateway.Usage{Input: 7, Output: 9, Total: 16}},
		{name: "a stream that counts from the beginning", stream: true, answer: early + strings.Repeat(delta, 4), want: gateway.Usage{Output: 5, Estimated: true}},
		{name: "a stream that has counted", stream: true, answer: `data: {"usage":{"prompt_tokens":5000,"completion_tokens":600}}` + "\n\n", want: gateway.Usage{Input: 5000, Output: 600, Total: 5600}},
		{name: "a stream of nothing", stream: true, answer: ": wait\n\n", want: gateway.Usage{Output: 1000, Estimated: true}},
		{name: "no answer", want: gateway.Usage{Output: 1000, Estimated: true}},
		{name: "a part of an answer", answer: `{"choices":[{"message":{"content":"` + strings.Repeat("x", 365), want: gateway.Usage{Output: 100, Estimated: true}},
		{name: "an answer without its usage", whole: true, answer: `{` + echo + `{}}`, want: gateway.Usage{Output: 24, Estimated: true}},
		{name: "an event of two lines", stream: true, whole: true, answer: "event: x\ndata: {\"usage\":\ndata: {\"prompt_tokens\":3}}\n\n", want: gateway.Usage{Input: 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, tt.answer)
				if tt.answer != "" {
					_ = http.NewResponseController(w).Flush()
				}
				if !tt.whole {
					<-r.Context().Done()
				}
			})}})
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			if tt.answer == "" {
				time.AfterFunc(100*time.Millisecond, giveUp)
			}
			res, err := d.client.Do(d.request(ctx, strings.NewReader(fmt.Sprintf(body, tt.stream))))
			if err == nil {
				_, _ = io.ReadFull(res.Body, make([]byte, len(tt.answer)))
				if tt.whole {
					_, _ = io.Copy(io.Discard, res.Body)
				}
				_ = res.Body.Close()
			}
			got := d.events.last(t, 2).Usage
			if got == nil {
				t.Fatal("nothing was counted")
			}
			if tt.want.Input == 0 && got.Input > 1000 && got.Input < 1100 {
				tt.want.Input, tt.want.Total = got.Input, got.Total
			}
			if *got != tt.want {
				t.Errorf("usage %+v, want %+v", *got, tt.want)
			}
		})
	}
}

// A call that waits for others under a budget, and is given up, has used nothing.
func TestCallsThatWaitUseNothing(t *testing.T) {
	arrived := make(chan struct{}, 9)
	d := open(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})}})
	const running, waiting = 4, 3
	var wg sync.WaitGroup
	defer wg.Wait()
	call := func(times int) (giveUp func()) {
		ctx, cancel := context.WithCancel(t.Context())
		for range times {
			wg.Go(func() {
				if res, err := d.client.Do(d.request(ctx, strings.NewReader(`{"model":"m"}`))); err == nil {
					_ = res.Body.Close()
				}
			})
		}
		return cancel
	}
	counted := func() (n int) {
		for _, e := range d.events.all {
			if e.Usage != nil {
				n++
			}
		}
		return n
	}
	endRunning := call(running)
	defer endRunning()
	for range running {
		<-arrived
	}
	endWaiting := call(waiting)
	defer endWaiting()
	d.events.last(t, running+waiting) // all have begun
	endWaiting()
	if spent := d.events.last(t, running+2*waiting); spent.Kind != gateway.Cancelled || counted() != 0 {
		t.Errorf("ended as %s, and %d calls were counted that waited", spent.Kind, counted())
	}
	endRunning()
	d.events.last(t, 2*(running+waiting))
	if counted() != running {
		t.Errorf("%d calls were counted, want %d", counted(), running)
	}
}

// Endpoints repeat what a call says of itself behind what it used.
func TestUsageBeforeMuchElse(t *testing.T) {
	said := strings.Repeat("\u00e9", 9000)
	d, _ := policed(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}}, `,"usage":{"input_tokens":7,"output_tokens":50000},"metadata":{"k":"`+said+`"}`)
	d.ask(`{"model":"m","metadata":{"k":"` + said + `"}}`)
	if u := d.events.last(t, 2).Usage; u == nil || *u != (gateway.Usage{Input: 7, Output: 50000}) {
		t.Errorf("usage %+v", u)
	}
}

// A stream is asked what it used, unless the endpoint minds or, without a budget, the
// agent has said what it wants.
func TestUsageIsAskedFor(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	objection := "nothing"
	endpoint := gateway.Endpoint{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(data))
		if strings.Contains(string(data), objection) {
			w.WriteHeader(400)
		}
	})}
	d := open(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}, Endpoint: endpoint})
	check := func(body string, want ...string) {
		t.Helper()
		bodies = nil
		d.ask(body)
		if fmt.Sprint(bodies) != fmt.Sprint(want) {
			t.Errorf("sent %q, want %q", bodies, want)
		}
	}
	const with = `{"stream_options":{"include_usage":true},"model":"m","stream":true}`
	check(`{"model":"m","stream":true}`, with)
	check(`{"model":"m"}`, `{"model":"m"}`)
	const options = `{"model":"m", "stream_options" : %s ,"stream":true}`
	asked := fmt.Sprintf(options, `{"include_usage":true}`)
	for _, said := range []string{`{}`, `null`, `{"include_usage":null}`, `{"include_usage":true,"include_usage":false}`, `"{}"`, `[[]]`} {
		check(fmt.Sprintf(options, said), asked)
	}
	objection = `"n":0`
	check(`{"n":0,"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"n":0,"model":"m","stream":true}`, `{"n":0,"model":"m","stream":true}`)
	objection = "include_usage"
	check(`{"model":"m","stream":true}`, with, `{"model":"m","stream":true}`)
	check(`{"model":"m","stream":true}`, `{"model":"m","stream":true}`)
	objection = "nothing"
	d = open(t, gateway.Options{Prices: map[string]gateway.Price{"m": {Input: 1}}, Endpoint: endpoint})
	check(fmt.Sprintf(options, `{}`), fmt.Sprintf(options, `{}`))
	check(fmt.Sprintf(options, `null`), asked)
}

func TestInspect(t *testing.T) {
	d, calls := policed(t, gateway.Options{Remote: true, Inspect: func(body []byte) error {
		if strings.Contains(string(body), "secret") {
			return errors.New("a secret would leave")
		}
		return nil
	}}, "")
	large := strings.Repeat("x", 3<<20)
	for body, status := range map[string]int{
		`{"model":"m"}`: 200, `{"model":"m","x":"secret"}`: 403, `no JSON`: 200,
		`{"model":"m","x":"` + large + `"}`: 200, `{"model":"m","x":"` + large + `secret"}`: 403,
	} {
		if res, text := d.ask(body); res.StatusCode != status || status == 403 && !strings.Contains(text, "a secret would leave") {
			t.Errorf("%d bytes: %d %s", len(body), res.StatusCode, text)
		}
	}
	for _, head := range []string{
		"POST /v1/chat/completions?x=secret HTTP/1.1\r\n", "GET /v1/models?secret HTTP/1.1\r\n",
		"GET /v1/models HTTP/1.1\r\nUser-Agent: secret\r\n", "POST /v1/chat/completions HTTP/1.1\r\nX-Request-Id: a\r\nX-Request-Id: secret\r\n",
	} {
		if answer := d.raw(head + "Host: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer " + d.Token() + "\r\nContent-Length: 0\r\n\r\n"); !strings.Contains(answer, " 403 ") || !strings.Contains(answer, "a secret would leave") {
			t.Errorf("%s: %s", head, answer)
		}
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls went out", calls.Load())
	}
}

// What lists the models has no body.
func TestListingHasNoBody(t *testing.T) {
	bodies := make(chan string, 1)
	d := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies <- string(data)
	})
	answer := d.raw("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer " + d.Token() + "\r\nContent-Length: 6\r\n\r\nsecret")
	if body := <-bodies; body != "" || !strings.Contains(answer, " 200 ") {
		t.Errorf("the endpoint got %q; %s", body, answer)
	}
}

// An endpoint that fetches, searches or calls other servers for a call would carry out what
// the agent writes into it. What is to be shown, or only has such a name, passes.
func TestRemote(t *testing.T) {
	const image = `{"model":"m","messages":[{"content":[{"type":"image_url","image_url":%s}]}]}`
	const message = `{"model":"m","messages":[{"content":[%s]}]}`
	refused := []string{
		fmt.Sprintf(image, `{"url":"https://example.com/?stolen"}`),
		fmt.Sprintf(image, `{"url":" HTTP://example.com/x"}`),
		fmt.Sprintf(image, `{"url":"data:image/png;base64,aaaa","url":"ftp://example.com"}`),
		fmt.Sprintf(image, `{"url":"//example.com/x"}`),
		fmt.Sprintf(image, `{"URL":"https://example.com"}`),
		fmt.Sprintf(image, `"https://example.com"`),
		fmt.Sprintf(image, `["https://example.com"]`),
		fmt.Sprintf(image, `[{"detail":"low","url":"https://example.com"}]`),
		`{"model":"m","input":[{"content":[{"type":"input_image","image_url":"https://example.com"}]}]}`,
		`{"model":"m","input":[{"content":[{"type":"input_file","fileUrl":"https://example.com"}]}]}`,
		`{"model":"m","input":[{"content":[{"type":"input_file","file_url":"https://example.com"}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"file","file":{"file_data":"https://example.com"}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://example.com"}}]}]}`,
		`{"model":"m","messages":[{"content":[{"type":"video_url","video_url":{"url":"https://example.com"}}]}]}`,
		`{"model":"m","messages":[],"messages":[{"content":[{"image_url":"https://example.com"}]}]}`,
		`{"model":"m","tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search_preview"}]}`,
		`{"model":"m","tools":[{"server_url":"https://example.com","type":"mcp"}]}`,
		`{"model":"m","Tools":[{"type":"function","type":"mcp"}]}`,
		`{"model":"m","tool\u017f":[{"type":"mcp"}]}`,
		`{"model":"m","tools":[{"googleSearch":{}}]}`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}]}`,
		`{"model":"m","tools":[{"type":"namespace","tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}]}`,
		`{"model":"m","tools":[{"type":"namespace","tools":[{"googleSearch":{}}]}]}`,
		`{"model":"m","web_search_options":{}}`, `{"model":"m","plugins":[{"id":"web"}]}`, `{"model":"m","search_parameters":{"mode":"on"}}`,
		`{"model":"m","enable_search":true}`, `{"model":"m","api_base":"https://example.com"}`, `{"model":"m","extra_body":{"enable_search":true}}`,
		fmt.Sprintf(message, `{"type":"input_audio","input_audio":{"data":"https://example.com/a.wav","format":"wav"}}`),
		fmt.Sprintf(message, `{"type":"video","video":["https://example.com/1.jpg"]}`),
		fmt.Sprintf(message, `{"type":"image","image":"https://example.com/1.jpg"}`),
		fmt.Sprintf(message, `{"type":"image","image":"ht\tt\nps:example.com"}`),
		fmt.Sprintf(message, `{"type":"image","image":"\u00a0HTTPS:\\\\example.com"}`),
		fmt.Sprintf(message, `{"audio":"ftp://example.com"}`), fmt.Sprintf(message, `{"document":"gs://example/x"}`),
		fmt.Sprintf(message, `{"anything":"oss://example/x"}`), fmt.Sprintf(message, `{"file":"file:///etc/passwd"}`),
		fmt.Sprintf(message, `{"type":"file","file":{"file_id":"https://example.com/x.pdf"}}`),
		fmt.Sprintf(message, `{"type":"document","source":{"type":"text","data":"https://example.com"}}`),
		`{"model":"m","input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"https://example.com"}}]}`,
		`{"model":"m","input":[{"image":"https://example.com"}]}`,
		`{"model":"m","user_config":{"model_list":[{"litellm_params":{"api_base":"https://example.com"}}]}}`,
		`{"model":"m","anything":[{"api_base":"example.com"}]}`,
		`{"model":"m","langfuse_host":"https://example.com"}`, `{"model":"m","metadata":{"langfuse_host":"example.com"}}`,
		`{"model":"m","aws_bedrock_runtime_endpoint":"https://example.com"}`, `{"model":"m","aws_sts_endpoint":"https://example.com"}`,
		`{"model":"m","aws_region_name":"example.com/"}`, `{"model":"m","vertex_credentials":"{}"}`, `{"model":"m","gcs_bucket_name":"example"}`,
		`{"model":"m","s3_endpoint_url":"https://example.com"}`, `{"model":"m","sagemaker_base_url":"https://example.com"}`,
		`{"model":"m","deployment_url":"https://example.com"}`, `{"model":"huggingface/https://example.com"}`,
		`{"model":"m","input":"gs://example/x"}`, `{"model":"m","input":["gs://example/x"]}`,
		`{"model":"m","response_format":{"json_schema":{"schema":{"$ref":"https://example.com"}}}}`,
	}
	passed := []string{
		fmt.Sprintf(image, `{"url":"data:image/png;base64,aaaa"}`),
		fmt.Sprintf(image, `{"url":"DATA:image/png;base64,aaaa","detail":"high"}`),
		fmt.Sprintf(image, `{"url":"iVBORw0KGgo="}`),
		`{"model":"m","messages":[{"content":"image_url: https://example.com, \"url\": \"https://example.com\""}]}`,
		`{"model":"m","messages":[{"tool_calls":[{"function":{"arguments":"{\"image_url\":\"https://example.com\"}"}}]}]}`,
		`{"model":"m","messages":[{"annotations":[{"type":"url_citation","url_citation":{"url":"https://example.com"}}]}]}`,
		`{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"type":{"type":"string"},"image_url":{"default":"https://example.com"},"source":{"url":"https://example.com"}}}}}]}`,
		`{"model":"m","response_format":{"json_schema":{"image_url":"https://example.com"}}}`,
		`{"model":"m","tools":[{"type":"namespace","name":"n","description":"https://example.com","tools":[{"type":"function","name":"f","parameters":{"properties":{"url":{"type":"string"}}}}]}]}`,
		`{"model":"m","tools":[{"type":"custom","name":"x"},{"type":"local_shell"}],"enable_search":false,"plugins":null}`,
		`{"model":"m","models":["n"]}`,
		`{"model":"m","messages":[{"role":"system","content":"https://example.com"},{"role":"tool","tool_call_id":"call_1","content":"https://example.com"},{"reasoning_content":"https://example.com","content":["https://example.com"]}]}`,
		fmt.Sprintf(message, `{"type":"text","text":"https://example.com","cache_control":{"type":"ephemeral"}}`),
		fmt.Sprintf(message, `{"type":"file","file":{"filename":"file:///p/a.pdf","file_data":"data:application/pdf;base64,aaaa"}}`),
		fmt.Sprintf(message, `{"type":"input_audio","input_audio":{"data":"aaaa","format":"wav"}}`),
		fmt.Sprintf(message, `{"type":"file","file":{"file_id":"file-abc"}}`),
		`{"model":"m","instructions":"https://example.com","input":"https://example.com","metadata":{"cwd":"C:/p","source":"agent 1.2"},"prompt_cache_key":"a:b"}`,
		`{"model":"m","input":[{"type":"function_call","arguments":"https://example.com"},{"type":"function_call_output","output":"https://example.com"},{"type":"reasoning","summary":[{"type":"summary_text","text":"https://example.com"}]}]}`,
		`{"model":"m","input":[{"type":"local_shell_call","action":{"type":"exec","command":["curl","https://example.com"],"env":{"BASE_URL":"http://localhost","AWS_REGION":"x"}}}]}`,
		`{"model":"m","prompt":"https://example.com","suffix":"https://example.com"}`,
		`{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"https://example.com","parameters":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"api_key":{"enum":["https://example.com"]},"base_url":{"$ref":"#/$defs/x"}}}}}]}`,
		`{"model":"m","text":{"format":{"type":"json_schema","schema":{"$id":"https://example.com","properties":{"aws_region":{}}}}}}`,
	}
	for _, remote := range []bool{false, true} {
		d, calls := policed(t, gateway.Options{Remote: remote}, "")
		for _, body := range refused {
			res, text := d.ask(body)
			if told := res.StatusCode == 403 && strings.Contains(text, "remote_not_allowed") && strings.Contains(text, "policy.model.remote"); told == remote || remote && res.StatusCode != 200 {
				t.Errorf("remote %t: %s: %d %s", remote, body, res.StatusCode, text)
			}
		}
		for _, body := range passed {
			if res, text := d.ask(body); res.StatusCode != 200 {
				t.Errorf("remote %t: %s: %d %s", remote, body, res.StatusCode, text)
			}
		}
		want := len(passed)
		if remote {
			want += len(refused)
		}
		if int(calls.Load()) != want {
			t.Errorf("remote %t: %d calls went out, want %d", remote, calls.Load(), want)
		}
		for _, body := range []string{"no JSON", `{"model":"m"`, strings.Repeat("[", 2000) + strings.Repeat("]", 2000)} {
			if res, text := d.ask(body); (res.StatusCode == 400) == remote {
				t.Errorf("remote %t: %.20s: %d %s", remote, body, res.StatusCode, text)
			}
		}
	}
}

// An endpoint may answer with another model than the one that is named first.
func TestFurtherModels(t *testing.T) {
	for _, o := range []gateway.Options{
		{Models: []string{"m"}, Remote: true},
		{Budget: gateway.Budget{MaxCost: 1}, Prices: map[string]gateway.Price{"m": {Input: 1}}},
	} {
		d, calls := policed(t, o, "")
		for _, body := range []string{
			`{"model":"m","models":["m","large"]}`, `{"models":["large"],"model":"m"}`, `{"model":"m","Model\u017f":["large"]}`, `{"model":"m","fallbacks":["large"]}`, `{"model":"m","fallback_models":"large"}`,
		} {
			if res, text := d.ask(body); res.StatusCode != 403 || !strings.Contains(text, "model_not_allowed") {
				t.Errorf("%s: %d %s", body, res.StatusCode, text)
			}
		}
		if answer := d.raw("POST /v1/chat/completions?model=large HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer " + d.Token() + "\r\nContent-Length: 13\r\n\r\n" + `{"model":"m"}`); !strings.Contains(answer, " 403 ") {
			t.Errorf("a model in the address: %s", answer)
		}
		if res, text := d.ask(`{"model":"m","models":null,"messages":[{"models":["x"]}]}`); res.StatusCode != 200 || calls.Load() != 1 {
			t.Errorf("a call of one model: %d %s; %d went out", res.StatusCode, text, calls.Load())
		}
	}
}

// LiteLLM takes a name with commas for several models, and answers with a list.
func TestSeveralModelsInOneName(t *testing.T) {
	priced := map[string]gateway.Price{"gpt-4o*": {Input: 1}}
	for name, tt := range map[string]struct {
		o       gateway.Options
		model   string
		refused bool
	}{
		"an allowed beginning":  {gateway.Options{Models: []string{"gpt-4o*"}}, "gpt-4o,o1-pro", true},
		"any":                   {gateway.Options{Models: []string{"*"}}, "gpt-4o,o1-pro", true},
		"a priced beginning":    {gateway.Options{Prices: priced}, "gpt-4o,o1-pro", true},
		"under a budget":        {gateway.Options{Budget: gateway.Budget{MaxTokens: 9}}, "gpt-4o,o1-pro", true},
		"under a bound of cost": {gateway.Options{Budget: gateway.Budget{MaxCost: 9}, Prices: priced}, "gpt-4o,o1-pro", true},
		"allowed by name":       {gateway.Options{Models: []string{"a,b"}}, "a,b", false},
		"priced by name":        {gateway.Options{Prices: map[string]gateway.Price{"a,b": {Input: 1}}}, "a,b", false},
		"without a policy":      {gateway.Options{}, "gpt-4o,o1-pro", false},
	} {
		t.Run(name, func(t *testing.T) {
			d, calls := policed(t, tt.o, "")
			res, text := d.ask(`{"model":"` + tt.model + `"}`)
			if refused := res.StatusCode == 403 && strings.Contains(text, "model_not_allowed"); refused != tt.refused || refused == (calls.Load() > 0) {
				t.Errorf("%d %s; %d calls went out", res.StatusCode, text, calls.Load())
			}
		})
	}
}

// What an endpoint uses for a call after the call counts for nothing.
func TestNothingIsAnsweredLater(t *testing.T) {
	d, calls := policed(t, gateway.Options{Budget: gateway.Budget{MaxTokens: 1e6}, Remote: true}, "")
	for _, body := range []string{`{"model":"m","background":true}`, `{"model":"m","background":false,"Background":true}`, `{"model":"m","deferred":true}`} {
		if res, text := d.ask(body); res.StatusCode != 403 || !strings.Contains(text, "later_not_allowed") {
			t.Errorf("%s: %d %s", body, res.StatusCode, text)
		}
	}
	if res, text := d.ask(`{"model":"m","background":false,"metadata":{"background":true}}`); res.StatusCode != 200 || calls.Load() != 1 {
		t.Errorf("a call that waits: %d %s; %d went out", res.StatusCode, text, calls.Load())
	}
	unbounded, _ := policed(t, gateway.Options{}, "")
	if res, text := unbounded.ask(`{"model":"m","background":true}`); res.StatusCode != 200 {
		t.Errorf("without a budget: %d %s", res.StatusCode, text)
	}
}
