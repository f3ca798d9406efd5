package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/developer"
)

// wireResult is CallToolResult as the classic extension wrote it.
type wireResult struct {
	Content    []wireContent   `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError"`
}

type wireContent struct {
	Type        string           `json:"type"`
	Text        *string          `json:"text,omitempty"`
	Data        string           `json:"data,omitempty"`
	MimeType    string           `json:"mimeType,omitempty"`
	Annotations *wireAnnotations `json:"annotations,omitempty"`
}

type wireAnnotations struct {
	Audience []string     `json:"audience,omitempty"`
	Priority *json.Number `json:"priority,omitempty"`
}

// result writes a result the way the client can use it. toolCall is the model's id of the
// call, which goose tells.
func (c *client) result(r developer.Result, toolCall string) []byte {
	content := r.Content
	if !c.splitsAudience() {
		content = forModel(content)
	}
	structured := r.Structured
	if r.Outcome != nil && c.structures() {
		structured = r.Outcome.Structured
		if c.showsTextOnly() || toolCall != "" {
			last := developer.Content{Text: r.Outcome.Text}
			if c.splitsAudience() {
				last.Audience = []string{"assistant"}
			}
			content = append(slices.Clip(content), last)
		}
	}
	content = c.limits().cut(content)
	w := wireResult{Content: []wireContent{}, Structured: structured, IsError: r.IsError}
	for _, block := range content {
		w.Content = append(w.Content, wireBlock(block))
	}
	return encode(w)
}

func wireBlock(c developer.Content) wireContent {
	w := wireContent{Type: "text", Text: &c.Text}
	if c.MimeType != "" {
		w = wireContent{Type: "image", Data: base64.StdEncoding.EncodeToString(c.Data), MimeType: c.MimeType}
	}
	if len(c.Audience) > 0 || c.Priority != nil {
		w.Annotations = &wireAnnotations{Audience: c.Audience}
	}
	if c.Priority != nil {
		n := json.Number(fmt.Sprintf("%.1f", *c.Priority)) // 0.0, as goose wrote it
		w.Annotations.Priority = &n
	}
	return w
}

// forModel keeps what the model is to see, and what is for nobody in particular. A
// block for the person stays when there is nothing else.
func forModel(content []developer.Content) []developer.Content {
	var kept []developer.Content
	for _, c := range content {
		if len(c.Audience) == 0 || slices.Contains(c.Audience, "assistant") {
			c.Audience = nil
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return content
	}
	return kept
}

// cut makes the text of all blocks together fit, by leaving out the middle of the
// longest ones and saying so.
func (l limits) cut(content []developer.Content) []developer.Content {
	if l.bytes == 0 {
		return content
	}
	size, lines := 0, 0
	for _, c := range content {
		size += len(c.Text)
		lines += strings.Count(c.Text, "\n") + 1
	}
	if size <= l.bytes && lines <= l.lines {
		return content
	}
	content = slices.Clone(content)
	shortest := make([]int, len(content))
	for i := range content {
		shortest[i] = i
	}
	slices.SortStableFunc(shortest, func(a, b int) int { return len(content[a].Text) - len(content[b].Text) })
	left := l
	for done, i := range shortest { // the shorter ones leave their rest to the longer ones
		share := limits{left.bytes / (len(content) - done), left.lines / (len(content) - done)}
		text := share.cutText(content[i].Text)
		content[i].Text = text
		left = limits{left.bytes - len(text), left.lines - strings.Count(text, "\n") - 1}
	}
	return content
}

// cutText keeps the beginning and the end.
func (l limits) cutText(s string) string {
	if len(s) <= l.bytes && strings.Count(s, "\n") < l.lines {
		return s
	}
	const note = 200 // bytes that the note may take
	head, tail := s, s
	budget := max(l.bytes-note, 0) / 2
	if len(head) > budget {
		head, tail = head[:budget], tail[len(tail)-budget:]
	}
	head = firstLines(head, l.lines/2-1)
	tail = lastLines(tail, l.lines/2-2)
	head, tail = whole(head), wholeEnd(tail)
	left := s[len(head) : len(s)-len(tail)]
	return fmt.Sprintf("%s\n[... %d bytes, %d lines, are left out here; ask for less at once to see them ...]\n%s",
		head, len(left), strings.Count(left, "\n"), tail)
}

func firstLines(s string, n int) string {
	i := 0
	for ; n > 0; n-- {
		end := strings.IndexByte(s[i:], '\n')
		if end < 0 {
			return s
		}
		i += end + 1
	}
	return s[:i]
}

func lastLines(s string, n int) string {
	i := len(s)
	for ; n > 0; n-- {
		start := strings.LastIndexByte(s[:i], '\n')
		if start < 0 {
			return s
		}
		i = start
	}
	return s[i:]
}

// whole drops a rune that was cut at the end.
func whole(s string) string {
	for i := 0; i < utf8.UTFMax && s != ""; i++ {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// wholeEnd drops a rune that was cut at the beginning.
func wholeEnd(s string) string {
	for s != "" && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// errorOf is a failure as it is answered.
func errorOf(err error) *rpcError {
	if e, ok := errors.AsType[*developer.Error](err); ok {
		return &rpcError{Code: e.Code, Message: e.Message}
	}
	return &rpcError{Code: developer.InternalError, Message: err.Error()}
}

// toolList is the result of tools/list, made once: the inventory does not change. With
// outcomes it has the schemas of those.
func toolList(tools []developer.Tool, outcomes bool) json.RawMessage {
	type wireTool struct {
		Name         string           `json:"name"`
		Title        string           `json:"title,omitempty"`
		Description  string           `json:"description,omitempty"`
		InputSchema  json.RawMessage  `json:"inputSchema"`
		OutputSchema json.RawMessage  `json:"outputSchema,omitempty"`
		Annotations  *toolAnnotations `json:"annotations,omitempty"`
	}
	list := []wireTool{}
	for _, t := range tools {
		if outcomes && t.OutcomeSchema != nil {
			t.OutputSchema = t.OutcomeSchema
		}
		list = append(list, wireTool{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, annotationsOf(t)})
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, encode(map[string]any{"tools": list})); err != nil {
		panic(err) // what encode made is JSON
	}
	return compact.Bytes()
}

type toolAnnotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Destructive bool   `json:"destructiveHint"`
	Idempotent  bool   `json:"idempotentHint"`
	OpenWorld   bool   `json:"openWorldHint"`
}

func annotationsOf(t developer.Tool) *toolAnnotations {
	if t.Hints == nil {
		return nil
	}
	return &toolAnnotations{t.Title, t.Hints.ReadOnly, t.Hints.Destructive, t.Hints.Idempotent, t.Hints.OpenWorld}
}
