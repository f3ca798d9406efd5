package sessions

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"gander.dev/gander/acp"
)

// maxResult bounds what a history tells of the result of a tool call, in bytes:
// its beginning and its end.
const maxResult = 2000

// resultOf is what an update of a tool call says of its result: text that takes
// the place of what was said before, or what is new of a running tool's output.
func resultOf(raw json.RawMessage) (whole, more string) {
	var u struct {
		Content []json.RawMessage `json:"content"`
		Meta    map[string]json.RawMessage
	}
	for key, value := range acp.Members(raw) {
		switch string(key) {
		case "content":
			_ = json.Unmarshal(value, &u.Content) // anything else shows nothing
		case "_meta":
			_ = json.Unmarshal(value, &u.Meta)
		}
	}
	var parts []string
	for _, item := range u.Content {
		if text := itemText(item); text != "" {
			parts = append(parts, text)
		}
	}
	var terminal struct {
		Data string `json:"data"`
	}
	_ = json.Unmarshal(u.Meta["terminal_output"], &terminal) // absent mostly
	if terminal.Data == "" {
		terminal.Data = acp.LiveOutput(u.Meta)
	}
	return strings.Join(parts, "\n"), terminal.Data
}

// itemText is an item of a tool call's content in words.
func itemText(raw json.RawMessage) string {
	var item struct {
		Type    string `json:"type"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
		Path    string  `json:"path"`
		OldText *string `json:"oldText"`
		NewText string  `json:"newText"`
	}
	if json.Unmarshal(raw, &item) != nil {
		return ""
	}
	switch {
	case item.Type != "diff":
		return strings.TrimSpace(item.Content.Text)
	case item.OldText == nil:
		return fmt.Sprintf("%s is new, with %s", item.Path, lines(item.NewText))
	}
	return fmt.Sprintf("%s was changed, from %s to %s", item.Path, lines(*item.OldText), lines(item.NewText))
}

func lines(text string) string {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return count(n, "line", "lines")
}

// readResult notes what an update says of the call's result: as the agent said it,
// before it became a terminal, else as it was shown.
func (c *toolCall) readResult(u Update, shown json.RawMessage) {
	if u.Update != nil {
		if c.result, _ = resultOf(u.Update); c.result != "" {
			return
		}
	}
	c.result, c.more = resultOf(shown)
}

// addResult adds what a later update says.
func (c *toolCall) addResult(u toolCall) {
	switch {
	case u.result != "":
		c.result = shortened(u.result)
	case u.more != "":
		c.result = shortened(c.result + u.more)
	}
}

const leftOut = "\n(… left out …)\n"

// shortened is the beginning and the end of a text that is too long.
func shortened(s string) string {
	if len(s) <= maxResult {
		return s
	}
	head, end := cutAt(s, maxResult/2), len(s)-maxResult/2
	for end < len(s) && !utf8.RuneStart(s[end]) {
		end++
	}
	if before, _, ok := strings.Cut(s, leftOut); ok { // it was shortened before
		head = before
	}
	return head + leftOut + s[end:]
}
