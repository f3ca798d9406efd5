package screen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The script that lists the windows and counts the displays. Titles are there only
// when the person lets the program that started the server record the screen.
const listScript = `ObjC.import("CoreGraphics"); ObjC.import("AppKit");
const list = ObjC.deepUnwrap(ObjC.castRefToObject($.CGWindowListCopyWindowInfo(
  $.kCGWindowListOptionOnScreenOnly | $.kCGWindowListExcludeDesktopElements, $.kCGNullWindowID)));
JSON.stringify({displays: Number($.NSScreen.screens.count), windows: list
  .filter(w => w.kCGWindowLayer === 0)
  .map(w => ({id: w.kCGWindowNumber, title: w.kCGWindowName || w.kCGWindowOwnerName || ""}))});`

// listing is what the script answers.
type listing struct {
	Displays int `json:"displays"`
	Windows  []struct {
		ID    int64  `json:"id"`
		Title string `json:"title"`
	} `json:"windows"`
}

func list(ctx context.Context) (l listing, err error) {
	out, err := run(ctx, "/usr/bin/osascript", "-l", "JavaScript", "-e", listScript)
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	return l, err
}

// run starts one of the system's programs; what it complains about is the error.
func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", program, err)
	}
	return out, nil
}

func (s *Screen) windows(ctx context.Context) (titles []string, err error) {
	l, err := list(ctx)
	for _, w := range l.Windows {
		if w.Title != "" {
			titles = append(titles, w.Title)
		}
	}
	return titles, err
}

func (s *Screen) captureWindow(ctx context.Context, title string) (image.Image, error) {
	l, err := list(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range l.Windows {
		if w.Title == title {
			return capture(ctx, "-o", "-l", strconv.FormatInt(w.ID, 10))
		}
	}
	return nil, ErrNoWindow
}

func (s *Screen) captureDisplay(ctx context.Context, index uint64) (image.Image, error) {
	l, err := list(ctx)
	if err != nil {
		return nil, &MonitorsError{err}
	}
	if index >= uint64(l.Displays) {
		return nil, &NoDisplayError{Index: index, Found: l.Displays}
	}
	return capture(ctx, "-D", strconv.FormatUint(index+1, 10))
}

// capture has the system's own program take the picture.
func capture(ctx context.Context, args ...string) (picture image.Image, err error) {
	dir, err := os.MkdirTemp("", "gander-screen-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := filepath.Join(dir, "screen.png")
	if _, err := run(ctx, "/usr/sbin/screencapture", append(append([]string{"-x", "-t", "png"}, args...), name)...); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("no picture was taken; allow screen recording for this program in the system's privacy settings: %w", err)
	}
	defer func() { _ = f.Close() }()
	return png.Decode(f)
}
