package acpagent

import (
	"encoding/json"

	"gander.dev/gander/acp"
)

// EditOf is the file that a call of the developer server's text_editor works on, and
// what it changes as ACP's diff; nil for a call that changes nothing, or of which
// the arguments do not say it.
func EditOf(arguments json.RawMessage) (path string, diff any) {
	var a struct {
		Command  string  `json:"command"`
		Path     string  `json:"path"`
		FileText *string `json:"file_text"`
		OldStr   *string `json:"old_str"`
		NewStr   *string `json:"new_str"`
	}
	if acp.Decode(arguments, &a) != nil || a.Path == "" {
		return "", nil
	}
	switch {
	case a.Command == "write" && a.FileText != nil:
		return a.Path, map[string]any{"type": "diff", "path": a.Path, "newText": *a.FileText}
	case (a.Command == "str_replace" || a.Command == "edit_file") && a.OldStr != nil && a.NewStr != nil:
		return a.Path, map[string]any{"type": "diff", "path": a.Path, "oldText": *a.OldStr, "newText": *a.NewStr}
	case a.Command == "insert" && a.NewStr != nil:
		return a.Path, map[string]any{"type": "diff", "path": a.Path, "oldText": "", "newText": *a.NewStr}
	}
	return a.Path, nil
}

// Before is a list of content with one more item at its beginning.
func Before(first any, rest []json.RawMessage) []any {
	out := []any{first}
	for _, r := range rest {
		out = append(out, r)
	}
	return out
}
