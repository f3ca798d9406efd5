package developer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gander.dev/gander/developer/screen"
)

const listWindowsDescription = "List all available window titles that can be used with screen_capture. Returns a list of window titles that can be used with the window_title parameter of the screen_capture tool."

const listWindowsSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ListWindowsParams",
  "type": "object",
  "properties": {}
}`

// listWindowsTool is classic goose's list_windows.
func listWindowsTool(s *screen.Screen) Tool {
	return Tool{
		Name:        "list_windows",
		Description: listWindowsDescription,
		InputSchema: json.RawMessage(listWindowsSchema),
		Call: func(ctx context.Context, _ Call) (Result, error) {
			titles, err := s.Windows(ctx)
			if err != nil {
				return Result{}, &Error{InternalError, fmt.Sprintf("Failed to list windows: %v", err)}
			}
			text := "Available windows:\n" + strings.Join(titles, "\n")
			return Result{Content: []Content{
				{Text: text, Audience: []string{"assistant"}},
				{Text: text, Audience: []string{"user"}, Priority: new(float64)},
			}}, nil
		},
	}
}
