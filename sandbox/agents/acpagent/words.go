package acpagent

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"gander.dev/gander/acp"
)

// maxWords is how much of a replayed conversation is kept, in bytes: its end.
const maxWords = 1 << 20

// words are what was said in a conversation that an agent replays.
type words struct {
	// mu guards text.
	mu   sync.Mutex
	text []byte
}

// add adds what an update says.
func (w *words) add(update json.RawMessage) {
	kind := acp.UpdateKind(update)
	if kind != acp.UserMessageChunk && kind != acp.AgentMessageChunk {
		return
	}
	var said struct {
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(update, &said) // what has no text says nothing
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, said.Content.Text...)
	if over := len(w.text) - maxWords; over > maxWords {
		w.text = slices.Delete(w.text, 0, over)
	}
}

// any reports whether some of these words were said, or none are looked for. White
// space does not count.
func (w *words) any(looked []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := strings.Join(strings.Fields(string(w.text)), "")
	return len(looked) == 0 || slices.ContainsFunc(looked, func(s string) bool {
		return strings.Contains(said, strings.Join(strings.Fields(s), ""))
	})
}
