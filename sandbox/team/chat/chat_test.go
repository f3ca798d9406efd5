package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox/team/chat"
)

// over returns a client of a server.
func over(t *testing.T, h http.Handler) *chat.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := chat.Over(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}, "token")
	t.Cleanup(c.Close)
	return c
}

func scripted(t *testing.T) *chat.Client {
	t.Helper()
	m := model.New(model.Options{Key: "token"})
	t.Cleanup(func() { _ = m.Close() })
	return over(t, m)
}

func asked(steps string) chat.Request {
	return chat.Request{Model: "m", Messages: []chat.Message{{Role: "user", Content: model.Embed(steps)}}, Tools: []chat.Tool{{Name: "t", Parameters: []byte(`{}`)}}}
}

func TestAsk(t *testing.T) {
	c := scripted(t)
	var text, thought strings.Builder
	reply, err := c.Ask(t.Context(), asked(`[{"reasoning":"Let me think","text":"It is four.","tools":[{"tool":"t","args":{"a":"a long text that comes in pieces"}},{"tool":"t","raw":"{\"cut"}]}]`), func(d chat.Delta) {
		text.WriteString(d.Text)
		thought.WriteString(d.Reasoning)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != "It is four." || reply.Content != text.String() || !strings.HasPrefix(thought.String(), "Let me think") || reply.Usage.Total == 0 {
		t.Errorf("text %q, thought %q, reply %+v", &text, &thought, reply)
	}
	if len(reply.Calls) != 2 || reply.Calls[0].Function.Arguments != `{"a":"a long text that comes in pieces"}` || reply.Calls[1].Function.Arguments != `{"cut` || reply.Calls[0].ID == reply.Calls[1].ID {
		t.Errorf("calls %+v", reply.Calls)
	}
}

func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct{ steps, want string }{
		"status":  {`[{"status":503,"text":"too busy"}]`, "status 503: too busy"},
		"dropped": {`[{"text":"a b c","drop":true,"after":1}]`, "asking the model"},
		"error":   {`[{"text":"a","error":{"message":"it broke"}}]`, "it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := scripted(t).Ask(t.Context(), asked(tt.steps), nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
		})
	}
	_, err := scripted(t).Ask(t.Context(), asked(`[{"status":400,"text":"This model does not support tools."}]`), nil)
	if e, ok := errors.AsType[*chat.Error](err); !ok || !e.NoTools() {
		t.Errorf("without tools: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err = scripted(t).Ask(ctx, asked(`[{"text":"a b","hang":"forever","after":1}]`), func(chat.Delta) { stop() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Other endpoints stream otherwise, or not at all.
func TestShapes(t *testing.T) {
	for name, tt := range map[string]struct{ kind, body, want string }{
		"whole":      {"application/json", `{"choices":[{"message":{"content":"four"}}]}`, "four"},
		"no end":     {"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"fo\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"ur\"},\"finish_reason\":\"stop\"}]}\n\n", "four"},
		"comments":   {"text/event-stream", ": hello\nevent: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"four\"}}]}\n\ndata: [DONE]\n\n", "four"},
		"cut":        {"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"fo\"}}]}\n\n", "error"},
		"no answer":  {"text/event-stream", "data: [DONE]\n\n", "error"},
		"no JSON":    {"text/event-stream", "data: <html>\n\n", "error"},
		"many calls": {"text/event-stream", `data: {"choices":[{"delta":{"tool_calls":[{"index":9999}]}}]}` + "\n\n", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			c := over(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = w.Write([]byte(tt.body))
			}))
			reply, err := c.Ask(t.Context(), asked("[]"), nil)
			if tt.want == "error" && err == nil || tt.want != "error" && (err != nil || reply.Content != tt.want) {
				t.Errorf("got %+v, %v; want %q", reply, err, tt.want)
			}
		})
	}
}

// A client of Anthropic's protocol says the same in it, and reads the same from it.
func TestMessages(t *testing.T) {
	m := model.New(model.Options{Key: "token"})
	t.Cleanup(func() { _ = m.Close() })
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	c := chat.OverMessages(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	}, "token")
	t.Cleanup(c.Close)
	ask := func(steps string) (string, string, *chat.Reply, error) {
		var text, thought strings.Builder
		reply, err := c.Ask(t.Context(), chat.Request{Model: "m", Messages: []chat.Message{
			{Role: "system", Content: "Be brief."}, {Role: "user", Content: model.Embed(steps), Images: []chat.Image{{MIMEType: "image/png", Data: "aGk="}}},
		}}, func(d chat.Delta) {
			text.WriteString(d.Text)
			thought.WriteString(d.Reasoning)
		})
		return text.String(), thought.String(), reply, err
	}
	text, thought, reply, err := ask(`[{"reasoning":"Let me think","text":"It is four."}]`)
	if err != nil {
		t.Fatal(err)
	}
	if text != "It is four." || reply.Content != text || !strings.HasPrefix(thought, "Let me think") || reply.Usage.Input == 0 || reply.Usage.Total != reply.Usage.Input+reply.Usage.Output || reply.Finish != "end_turn" {
		t.Errorf("text %q, thought %q, reply %+v", text, thought, reply)
	}
	if got := string(m.Requests()[0].Body); !strings.Contains(got, `"system":"Be brief."`) || !strings.Contains(got, `{"source":{"data":"aGk=","media_type":"image/png","type":"base64"},"type":"image"}`) {
		t.Errorf("it was asked %s", got)
	}
	for steps, want := range map[string]string{
		`[{"status":503,"text":"too busy"}]`:                   "status 503: too busy",
		`[{"text":"a b c","drop":true,"after":1}]`:             "asking the model",
		`[{"text":"a","error":{"message":"it broke"}}]`:        "it broke",
		`[{"text":"a b c","hang":"10ms","after":1,"times":1}]`: "",
	} {
		if _, _, _, err := ask(steps); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", steps, err)
		}
	}
}

// An image stands behind the text of a message.
func TestImage(t *testing.T) {
	raw, err := json.Marshal(chat.Message{Role: "user", Content: "Look:", Images: []chat.Image{{MIMEType: "image/png", Data: "aGk="}}})
	if want := `{"content":[{"text":"Look:","type":"text"},{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"role":"user"}`; err != nil || string(raw) != want {
		t.Errorf("it is %s, %v", raw, err)
	}
}
