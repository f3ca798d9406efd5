package developer

import (
	"context"
	"encoding/json"
	"fmt"

	"gander.dev/gander/developer/editor"
)

const editSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "FileEditParams",
  "type": "object",
  "properties": {
    "path": {"type": "string"},
    "before": {"type": "string"},
    "after": {"type": "string"}
  },
  "required": ["path", "before", "after"]
}`

// editTool is the edit of goose 1.52.
func editTool(e *editor.Editor, s *Spaces) Tool {
	return Tool{
		Name:        "edit",
		Title:       "Edit",
		Description: "Edit a file by finding and replacing text. The before text must match exactly and uniquely. Use empty after text to delete.",
		InputSchema: json.RawMessage(editSchema),
		Hints:       &Hints{Destructive: true},
		Call: func(_ context.Context, call Call) (Result, error) {
			var path, before, after *string
			if err := currentArguments(call, "path", &path, "before", &before, "after", &after); err != nil {
				return currentAnswer("", err), nil
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return currentAnswer("", err), nil
			}
			var notes []string
			err = e.Swap(space.Noting(noteOnce(&notes)), *path, *before, *after)
			done := fmt.Sprintf("Edited %s (%d lines -> %d lines)", *path, lineCount(*before), lineCount(*after))
			return currentAnswer(joinNotes(done, notes...), onPath(err, *path)), nil
		},
	}
}
