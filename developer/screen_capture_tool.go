package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"

	"gander.dev/gander/developer/screen"
)

const screenCaptureDescription = "Capture a screenshot of a specified display or window. You can capture either: 1. A full display (monitor) using the display parameter 2. A specific window by its title using the window_title parameter. Only one of display or window_title should be specified."

const screenCaptureSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ScreenCaptureParams",
  "type": "object",
  "properties": {
    "display": {"description": "The display number to capture (0 is main display)", "type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null},
    "window_title": {"description": "Optional: the exact title of the window to capture. Use the list_windows tool to find the available windows.", "type": ["string", "null"], "default": null}
  }
}`

// screenCaptureTool is classic goose's screen_capture.
func screenCaptureTool(s *screen.Screen) Tool {
	return Tool{
		Name:        "screen_capture",
		Description: screenCaptureDescription,
		InputSchema: json.RawMessage(screenCaptureSchema),
		Call: func(ctx context.Context, call Call) (Result, error) {
			members, err := argumentMembers(call.Arguments)
			var display *uint64
			var title *string
			if err = errors.Join(err, argument(members, "display", &display), argument(members, "window_title", &title)); err != nil {
				return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
			}
			var picture image.Image
			if title != nil {
				picture, err = s.CaptureWindow(ctx, *title)
				err = windowError(*title, err)
			} else {
				picture, err = s.CaptureDisplay(ctx, valueOr(display, 0))
				err = displayError(valueOr(display, 0), err)
			}
			if err != nil {
				return Result{}, err
			}
			return pictureResult("Screenshot captured", picture, 1)
		},
	}
}

func windowError(title string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, screen.ErrNoWindow):
		return &Error{InternalError, fmt.Sprintf("No window found with title '%s'", title)}
	}
	return &Error{InternalError, fmt.Sprintf("Failed to capture window '%s': %v", title, err)}
}

func displayError(index uint64, err error) error {
	none, isNone := errors.AsType[*screen.NoDisplayError](err)
	monitors, isMonitors := errors.AsType[*screen.MonitorsError](err)
	switch {
	case err == nil:
		return nil
	case isNone:
		return &Error{InternalError, fmt.Sprintf("%d was not an available monitor, %d found.", none.Index, none.Found)}
	case isMonitors:
		return &Error{InternalError, fmt.Sprintf("Failed to access monitors: %v", monitors.Err)}
	}
	return &Error{InternalError, fmt.Sprintf("Failed to capture display %d: %v", index, err)}
}
