//go:build unix && !darwin

package developer

import (
	"encoding/json"
	"strings"
	"testing"

	"gander.dev/gander/developer/screen"
)

// Without a display the tools say what classic goose said, and why.
func TestScreenToolsWithoutDisplay(t *testing.T) {
	nothing := screen.New(screen.Options{Display: ":65000"})
	for name, tt := range map[string]struct {
		tool      Tool
		arguments string
		want      string
	}{
		"windows": {listWindowsTool(nothing), `{}`, "Failed to list windows: "},
		"display": {screenCaptureTool(nothing), `{"display":1}`, "Failed to access monitors: "},
		"window":  {screenCaptureTool(nothing), `{"window_title":"a"}`, "Failed to capture window 'a': "},
	} {
		_, err := tt.tool.Call(t.Context(), Call{Arguments: json.RawMessage(tt.arguments)})
		if e, ok := err.(*Error); !ok || e.Code != InternalError || !strings.HasPrefix(e.Message, tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if err := windowError("a", screen.ErrNoWindow); err.Error() != "No window found with title 'a'" {
		t.Error(err)
	}
	if err := displayError(7, &screen.NoDisplayError{Index: 7, Found: 2}); err.Error() != "7 was not an available monitor, 2 found." {
		t.Error(err)
	}
}
