package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxChat bounds the model's answer to a single question, in bytes.
const maxChat = 1 << 20

// ChatRequest is a chat completion as every OpenAI-compatible endpoint has it.
type ChatRequest struct {
	Model       string        `json:"model"`
	Messages    []ChatMessage `json:"messages"`
	Stream      bool          `json:"stream"`
	MaxTokens   int           `json:"max_tokens,omitempty"`
	Temperature float64       `json:"temperature,omitempty"`
}

type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// Reasoning is what a model thought, where it says so.
	Reasoning string `json:"reasoning_content,omitempty"`
}

// A ChatRefusal is an answer that is none. What it says may repeat the key that it was
// sent; through a gateway it does not.
type ChatRefusal struct {
	status int
	Says   []byte
}

func (e *ChatRefusal) Error() string {
	return fmt.Sprintf("the model answers with status %d", e.status)
}

// Chat asks a model one question. base is the root of the endpoint's API, with its
// version; a key that is empty is not sent.
func Chat(ctx context.Context, client *http.Client, base, key string, question ChatRequest) (ChatMessage, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return ChatMessage{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return ChatMessage{}, fmt.Errorf("asking the model: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return ChatMessage{}, fmt.Errorf("asking the model: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxChat))
	if err != nil {
		return ChatMessage{}, fmt.Errorf("reading the model's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return ChatMessage{}, &ChatRefusal{resp.StatusCode, raw}
	}
	var answer struct {
		Choices []struct {
			Message ChatMessage `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return ChatMessage{}, fmt.Errorf("reading the model's answer: %w", err)
	}
	if len(answer.Choices) == 0 {
		return ChatMessage{}, errors.New("the model gave no answer")
	}
	return answer.Choices[0].Message, nil
}
