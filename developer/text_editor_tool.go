package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gander.dev/gander/developer/editor"
	"gander.dev/gander/developer/files"
)

const textEditorDescription = `View and change text files.

The "command" argument says what to do:
- view: show a file with line numbers, or the names in a directory. view_range limits it to some lines.
- write: make a file, or replace its whole content, with file_text. Missing directories are made.
- str_replace: put new_str in the place of old_str, which must occur exactly once and be given with all its whitespace; or apply a unified diff, given in diff instead of old_str and new_str.
- insert: put new_str after the line insert_line.
- undo_edit: take the last change of a file back, whatever it was.

Line ends, byte order mark and mode of a file stay as they are. A diff is applied as a whole or not at all; its path is the file, or the directory that the names in it are relative to.`

const textEditorSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "TextEditorParams",
  "type": "object",
  "properties": {
    "path": {"description": "File or directory, best as an absolute path such as /repo/file.py or /repo.", "type": "string"},
    "command": {"description": "What to do: view, write, str_replace, insert or undo_edit.", "type": "string"},
    "view_range": {"description": "For view: the first and the last line to show, counted from 1; a last line of -1 is the end of the file. Of no use for directories.", "type": ["array", "null"], "items": {"type": "integer", "format": "int64"}},
    "file_text": {"description": "For write: the whole content of the file.", "type": ["string", "null"]},
    "old_str": {"description": "For str_replace: the text to replace. It must occur exactly once.", "type": ["string", "null"]},
    "new_str": {"description": "For str_replace: the text to put there instead, which may be empty. For insert: the text to insert.", "type": ["string", "null"]},
    "insert_line": {"description": "For insert: the line after which to insert. 0 is the beginning of the file, -1 its end.", "type": ["integer", "null"], "format": "int64"},
    "diff": {"description": "For str_replace: a unified diff, with which several files can be changed at once. Example: \"--- a/file\\n+++ b/file\\n@@ -1,3 +1,3 @@\\n context\\n-old\\n+new\\n context\"", "type": ["string", "null"]}
  },
  "required": ["path", "command"]
}`

// textEditorTool is classic goose's text_editor: all of its layouts, literals and
// codes, on an editor that can undo everything it did.
func textEditorTool(e *editor.Editor, s *Spaces) Tool {
	return Tool{
		Name:        "text_editor",
		Description: textEditorDescription,
		InputSchema: json.RawMessage(textEditorSchema),
		Call: func(_ context.Context, call Call) (Result, error) {
			args, err := textEditorArguments(call.Arguments)
			if err != nil {
				return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return Result{}, err
			}
			check := space.CheckChange
			if *args.command == "view" {
				check = space.Check
			}
			if err := check(*args.path); err != nil {
				return Result{}, editorError(err)
			}
			var notes []string
			content, err := args.run(e, space.Noting(noteOnce(&notes)))
			if err != nil {
				return Result{}, editorError(err)
			}
			content[0].Text = joinNotes(content[0].Text, notes...)
			return Result{Content: content}, nil
		},
	}
}

// noteOnce collects what is to be said about changes that were made.
func noteOnce(notes *[]string) func(string) {
	return func(note string) {
		if !slices.Contains(*notes, note) {
			*notes = append(*notes, note)
		}
	}
}

// textEditorParams are the arguments; nil is one that was not given, or null.
type textEditorParams struct {
	path, command                  *string
	viewRange                      *[]int64
	fileText, oldStr, newStr, diff *string
	insertLine                     *int64
}

func textEditorArguments(raw json.RawMessage) (p textEditorParams, err error) {
	members, err := argumentMembers(raw)
	if err != nil {
		return p, err
	}
	err = errors.Join(
		argument(members, "path", &p.path),
		argument(members, "command", &p.command),
		argument(members, "view_range", &p.viewRange),
		argument(members, "file_text", &p.fileText),
		argument(members, "old_str", &p.oldStr),
		argument(members, "new_str", &p.newStr),
		argument(members, "insert_line", &p.insertLine),
		argument(members, "diff", &p.diff),
	)
	switch {
	case err != nil:
	case p.path == nil:
		err = errors.New("missing field `path`")
	case p.command == nil:
		err = errors.New("missing field `command`")
	}
	return p, err
}

// argumentMembers takes arguments apart by their exact names; encoding/json would
// take "Path" for "path".
func argumentMembers(raw json.RawMessage) (members map[string]json.RawMessage, err error) {
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &members)
	}
	return members, err
}

// argument decodes one argument; it stays nil when it is missing or null.
func argument[T any](members map[string]json.RawMessage, name string, into **T) error {
	raw, ok := members[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the argument `%s`: %w", name, err)
	}
	return nil
}

// run does what the command says.
func (p textEditorParams) run(e *editor.Editor, space *files.Space) ([]Content, error) {
	switch *p.command {
	case "view":
		return p.view(e, space)
	case "write":
		return p.write(e, space)
	case "str_replace":
		if p.diff != nil {
			return p.patch(e, space)
		}
		return p.replace(e, space)
	case "insert":
		return p.insert(e, space)
	case "undo_edit":
		if err := e.Undo(space, *p.path); err != nil {
			return nil, err
		}
		return []Content{{Text: "Undid the last edit"}}, nil
	}
	return nil, &Error{InvalidParams, fmt.Sprintf("Unknown command '%s'", clip(*p.command))}
}

func (p textEditorParams) view(e *editor.Editor, space *files.Space) ([]Content, error) {
	if info, err := space.Stat(*p.path); err == nil && info.IsDir() {
		text, err := e.List(space, *p.path)
		return []Content{{Text: text}}, err
	}
	var lines *editor.Range
	if p.viewRange != nil && len(*p.viewRange) == 2 {
		lines = &editor.Range{From: (*p.viewRange)[0], To: (*p.viewRange)[1]}
	}
	text, err := e.View(space, *p.path, lines)
	return forBoth(text, text, 0), err
}

func (p textEditorParams) write(e *editor.Editor, space *files.Space) ([]Content, error) {
	if p.fileText == nil {
		return nil, missing("file_text", "write")
	}
	path := space.Abs(*p.path)
	shown, err := e.Write(space, *p.path, *p.fileText)
	return forBoth("Successfully wrote to "+path, "### "+path+"\n"+editor.Fence(path, shown), 0.2), err
}

// reviewNote ends what the model is told about an edit.
const reviewNote = "\nReview the changes above for errors. Undo and edit the file again if necessary!\n"

func (p textEditorParams) replace(e *editor.Editor, space *files.Space) ([]Content, error) {
	switch {
	case p.oldStr == nil:
		return nil, missing("old_str", "str_replace")
	case p.newStr == nil:
		return nil, missing("new_str", "str_replace")
	}
	path := space.Abs(*p.path)
	snippet, err := e.Replace(space, *p.path, *p.oldStr, *p.newStr)
	fence := editor.Fence(path, snippet)
	return forBoth("The file "+path+" has been edited, and the section now reads:\n"+fence+reviewNote, fence, 0.2), err
}

func (p textEditorParams) insert(e *editor.Editor, space *files.Space) ([]Content, error) {
	switch {
	case p.insertLine == nil:
		return nil, missing("insert_line", "insert")
	case p.newStr == nil:
		return nil, missing("new_str", "insert")
	}
	path := space.Abs(*p.path)
	first, snippet, err := e.Insert(space, *p.path, *p.insertLine, *p.newStr)
	fence := editor.Fence(path, snippet)
	return forBoth(fmt.Sprintf("Text has been inserted at line %d in %s. The section now reads:\n%s%s", first, path, fence, reviewNote), fence, 0.2), err
}

func (p textEditorParams) patch(e *editor.Editor, space *files.Space) ([]Content, error) {
	s, err := e.Patch(space, *p.path, *p.diff)
	if err != nil {
		return nil, err
	}
	text, hint := patchSummary(s), "\n\nUse 'undo_edit' to revert if needed.\n\n"
	if s.Files > 1 {
		hint = "\n\nUse 'undo_edit' on individual files to revert if needed.\n\n"
	}
	return forBoth(text, text+hint, 0.2), nil
}

func patchSummary(s editor.Summary) string {
	rows := []string{
		fmt.Sprintf("Successfully applied diff to %s:", s.Path),
		fmt.Sprintf("• Lines added: %d", s.Added),
		fmt.Sprintf("• Lines removed: %d", s.Removed),
	}
	if s.Files > 1 {
		rows = append([]string{
			"Successfully applied multi-file diff:",
			fmt.Sprintf("• Files created: %d", s.Created),
			fmt.Sprintf("• Files modified: %d", s.Modified),
			fmt.Sprintf("• Files deleted: %d", s.Deleted),
		}, rows[1:]...)
	}
	for _, note := range s.Notes {
		rows = append(rows, "• "+note)
	}
	return strings.Join(rows, "\n")
}

// forBoth is what the model sees and what the person sees.
func forBoth(assistant, user string, priority float64) []Content {
	return []Content{
		{Text: assistant, Audience: []string{"assistant"}},
		{Text: user, Audience: []string{"user"}, Priority: new(priority)},
	}
}

func missing(argument, command string) error {
	return &Error{InvalidParams, fmt.Sprintf("Missing '%s' parameter for %s command", argument, command)}
}

// editorError gives the editor's errors their codes.
func editorError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*editor.InvalidError](err); ok {
		return &Error{InvalidParams, e.Message}
	}
	return &Error{InternalError, err.Error()}
}
