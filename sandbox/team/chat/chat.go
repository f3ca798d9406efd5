// Package chat asks a model by the protocol of OpenAI's chat completions, with tools and
// streamed answers, over a connection that somebody else makes.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// A Message is one of a conversation.
type Message struct {
	Role       string  `json:"role"`
	Content    string  `json:"content"`
	Images     []Image `json:"-"` // stand behind Content
	Calls      []Call  `json:"tool_calls,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
}

// An Image is one in base64.
type Image struct{ MIMEType, Data string }

// MarshalJSON implements json.Marshaler.
func (m Message) MarshalJSON() ([]byte, error) {
	type plain Message
	if len(m.Images) == 0 {
		return json.Marshal(plain(m))
	}
	parts := []any{map[string]string{"type": "text", "text": m.Content}}
	for _, i := range m.Images {
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": "data:" + i.MIMEType + ";base64," + i.Data}})
	}
	return json.Marshal(map[string]any{"role": m.Role, "content": parts})
}

// A Call is a tool call of the model. Its Arguments are text, which need not be JSON.
type Call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// A Function is the name of a tool, and what it is called with.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A Tool is one that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON schema
}

// MarshalJSON implements json.Marshaler.
func (t Tool) MarshalJSON() ([]byte, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function(t)})
}

// A Request asks for the next message of a conversation.
type Request struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`
	// ToolChoice is "none" where no tool may be called; empty leaves it to the model.
	ToolChoice string `json:"tool_choice,omitempty"`
}

// A Reply is the model's message as a whole.
type Reply struct {
	Message
	Reasoning string
	Finish    string
	Usage     Usage
}

// Usage counts the tokens of a call.
type Usage struct {
	Input  int64 `json:"prompt_tokens"`
	Output int64 `json:"completion_tokens"`
	Total  int64 `json:"total_tokens"`
}

// A Delta is a piece of a reply as it comes: text that is said, or thought.
type Delta struct{ Text, Reasoning string }

// An Error is an answer that is none.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the model answers with status %d: %s", e.Status, e.Message)
}

// NoTools reports whether the endpoint says that it takes no tools.
func (e *Error) NoTools() bool {
	said := strings.ToLower(e.Message)
	return (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound || e.Status == http.StatusUnprocessableEntity) &&
		(strings.Contains(said, "tool") || strings.Contains(said, "function"))
}

// A Client asks one endpoint.
type Client struct {
	http     *http.Client
	token    string
	messages bool // the endpoint speaks Anthropic's protocol
}

// Over returns a client of the endpoint that dial reaches; token is in the place of a key.
func Over(dial func(context.Context) (net.Conn, error), token string) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{http: &http.Client{Transport: t}, token: token}
}

// Close closes the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// The bounds of a reply.
const (
	maxReply = 8 << 20
	maxCalls = 64
	maxError = 4 << 10
)

// Ask asks for the next message. each, which may be nil, hears of its pieces as they come.
func (c *Client) Ask(ctx context.Context, q Request, each func(Delta)) (*Reply, error) {
	path, encode := "chat/completions", asCompletions
	if c.messages {
		path, encode = "messages", asMessages
	}
	body, err := encode(q)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, asking(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
		return nil, &Error{resp.StatusCode, messageOf(raw)}
	}
	if each == nil {
		each = func(Delta) {}
	}
	r := reader{each: each, messages: c.messages}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") { // it does not stream
		err = r.whole(resp.Body)
	} else {
		err = r.stream(resp.Body)
	}
	if err != nil {
		return nil, asking(ctx, err)
	}
	return r.reply(), nil
}

// asCompletions is a request in OpenAI's protocol.
func asCompletions(q Request) ([]byte, error) {
	return json.Marshal(struct {
		Request
		Stream  bool           `json:"stream"`
		Options map[string]any `json:"stream_options"`
	}{q, true, map[string]any{"include_usage": true}})
}

// asking is an error without the address, which is none.
func asking(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return fmt.Errorf("asking the model: %w", unwrapURL(err))
}

func unwrapURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), "http://127.0.0.1/") {
		return inner
	}
	return err
}

// messageOf reads the body of an error.
func messageOf(raw []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &e) == nil {
		if e.Error.Message != "" {
			return e.Error.Message
		}
		if e.Message != "" {
			return e.Message
		}
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(raw)), "")
}
