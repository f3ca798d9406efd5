package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gander.dev/gander/developer/editor"
)

const writeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "FileWriteParams",
  "type": "object",
  "properties": {
    "path": {"type": "string"},
    "content": {"type": "string"}
  },
  "required": ["path", "content"]
}`

// writeTool is the write of goose 1.52: the bytes as given, no undo.
func writeTool(e *editor.Editor, s *Spaces) Tool {
	return Tool{
		Name:        "write",
		Title:       "Write",
		Description: "Create a new file or overwrite an existing file. Creates parent directories if needed.",
		InputSchema: json.RawMessage(writeSchema),
		Hints:       &Hints{Destructive: true},
		Call: func(_ context.Context, call Call) (Result, error) {
			var path, content *string
			if err := currentArguments(call, "path", &path, "content", &content); err != nil {
				return currentAnswer("", err), nil
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return currentAnswer("", err), nil
			}
			var notes []string
			created, err := e.SetContent(space.Noting(noteOnce(&notes)), *path, *content)
			did := "Wrote"
			if created {
				did = "Created"
			}
			return currentAnswer(joinNotes(fmt.Sprintf("%s %s (%d lines)", did, *path, lineCount(*content)), notes...), onPath(err, *path)), nil
		},
	}
}

// currentArguments decodes strings that must be there, in goose 1.52's words.
func currentArguments(call Call, pairs ...any) error {
	members, err := argumentMembers(call.Arguments)
	if err != nil {
		return badArguments(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		name, into := pairs[i].(string), pairs[i+1].(**string)
		if err := argument(members, name, into); err != nil {
			return badArguments(err)
		}
		if *into == nil {
			return badArguments(fmt.Errorf("missing field `%s`", name))
		}
	}
	return nil
}

func badArguments(err error) error { return currentError("Error: Failed to parse arguments: %v", err) }

// currentError is a failure in goose 1.52's words. There it is a result, so the
// code does not show.
func currentError(format string, args ...any) error {
	return &Error{InternalError, fmt.Sprintf(format, args...)}
}

// currentAnswer is a result as goose 1.52's: one block, and failures are results.
func currentAnswer(text string, err error) Result {
	if err != nil {
		text = err.Error()
	}
	return Result{Content: []Content{{Text: text, Priority: new(0.0)}}, IsError: err != nil}
}

// onPath words a failure of the file system as goose 1.52 does, with the path as
// the call gave it.
func onPath(err error, path string) error {
	if failure, ok := errors.AsType[*editor.FileError](err); ok {
		return currentError("Failed to %s %s: %s", failure.Doing, path, editor.Reason(failure.Err))
	}
	return err
}

// lineCount counts lines as goose does: a line feed at the end begins none.
func lineCount(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
