package notify

import (
	"encoding/json"
	"errors"
)

// A Question waits for a person, who may answer it elsewhere than where it was put.
type Question struct {
	// ID is its asker's choice, 8 to 64 letters, digits and dashes.
	ID string `json:"id"`
	// Kind is "permission" or "form".
	Kind string `json:"kind"`
	// Agent and Session say who asks; Project is the base name of Dir, which is not shown.
	Agent   string `json:"agentType"`
	Session string `json:"sessionId"`
	Project string `json:"project"`
	Dir     string `json:"-"`
	// Title is one line, Text the rest.
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
	// Options are those of a permission.
	Options []Option `json:"options,omitempty"`
	// Schema is the JSON schema of a form's values.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// An Option of a permission. Kind is ACP's: allow_once, allow_always, reject_once or reject_always.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// An Answer to a question: an option's id, or an action with a form's values.
type Answer struct {
	Option  string          `json:"optionId,omitempty"`
	Action  string          `json:"action,omitempty"` // accept or decline
	Content json.RawMessage `json:"content,omitempty"`
}

// ErrNobody means that a question was answered by nobody elsewhere.
var ErrNobody = errors.New("nobody has answered elsewhere")
