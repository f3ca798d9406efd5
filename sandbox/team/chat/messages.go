package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
)

// maxTokens bounds a reply by Anthropic's protocol, which wants that said.
const maxTokens = 8192

// OverMessages returns a client of an endpoint that speaks Anthropic's Messages. It takes no
// tools.
func OverMessages(dial func(context.Context) (net.Conn, error), token string) *Client {
	c := Over(dial, token)
	c.messages = true
	return c
}

// asMessages is a request in Anthropic's protocol, where what is told first stands apart.
func asMessages(q Request) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	var system []string
	var talk []message
	for _, m := range q.Messages {
		if m.Role == "system" {
			system = append(system, m.Content)
			continue
		}
		said := message{m.Role, m.Content}
		if len(m.Images) > 0 {
			parts := []any{map[string]string{"type": "text", "text": m.Content}}
			for _, i := range m.Images {
				parts = append(parts, map[string]any{"type": "image", "source": map[string]string{"type": "base64", "media_type": i.MIMEType, "data": i.Data}})
			}
			said.Content = parts
		}
		talk = append(talk, said)
	}
	return json.Marshal(struct {
		Model     string    `json:"model"`
		MaxTokens int       `json:"max_tokens"`
		System    string    `json:"system,omitempty"`
		Messages  []message `json:"messages"`
		Stream    bool      `json:"stream"`
	}{q.Model, maxTokens, strings.Join(system, "\n\n"), talk, true})
}

// event is one of a stream of Anthropic's protocol, or an answer that is not streamed.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage messageUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		Stop     string `json:"stop_reason"`
	} `json:"delta"`
	Usage   messageUsage `json:"usage"`
	Content []struct {
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"content"`
	Stop  string          `json:"stop_reason"`
	Error json.RawMessage `json:"error"`
}

type messageUsage struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// addEvent takes an event; last says that nothing comes behind it.
func (r *reader) addEvent(data []byte) (last bool, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("what it streams cannot be read: %w", err)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		return false, &Error{Status: 200, Message: messageOf([]byte(`{"error":` + string(e.Error) + `}`))}
	}
	r.count(e.Message.Usage)
	r.count(e.Usage)
	said := choice{Delta: piece{Content: e.Delta.Text, Reasoning: e.Delta.Thinking}, Finish: e.Delta.Stop + e.Stop}
	for _, block := range e.Content {
		said.Delta.Content += block.Text
		said.Delta.Reasoning += block.Thinking
	}
	return e.Type == "message_stop", r.add(&chunk{Choices: []choice{said}})
}

// count takes down what is said of tokens; it is said in pieces, and some of it twice.
func (r *reader) count(u messageUsage) {
	r.usage.Input = max(r.usage.Input, u.Input+u.CacheRead+u.CacheWrite)
	r.usage.Output = max(r.usage.Output, u.Output)
	r.usage.Total = r.usage.Input + r.usage.Output
}
