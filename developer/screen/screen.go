// Package screen sees what a person sees: the titles of the windows, and pictures
// of windows and displays.
//
// [New] makes a [Screen]; its methods may be called concurrently. Linux and the
// BSDs are asked through X11, macOS through the programs that it ships, Windows
// through its own libraries. Wayland lets no program see other programs' windows:
// there, X11 windows are all that is seen, and a display is an error that says so.
package screen

import (
	"context"
	"errors"
	"fmt"
	"image"
)

// Options say where the screen is.
type Options struct {
	// Display is the X11 display (DISPLAY), Wayland the Wayland socket
	// (WAYLAND_DISPLAY); they are of no use on macOS and Windows.
	Display, Wayland string
}

// A Screen is the displays of a session and what is on them.
type Screen struct{ o Options }

// New makes a Screen. Nothing is connected until it is used.
func New(o Options) *Screen { return &Screen{o} }

// ErrNoWindow is wrapped when no window has the title.
var ErrNoWindow = errors.New("no window has this title")

// A NoDisplayError says that there is no display with an index.
type NoDisplayError struct {
	Index uint64
	// Found is how many displays there are.
	Found int
}

func (e *NoDisplayError) Error() string {
	return fmt.Sprintf("there is no display %d; found %d", e.Index, e.Found)
}

// A MonitorsError says that the displays could not even be counted: nothing can be
// seen at all.
type MonitorsError struct{ Err error }

func (e *MonitorsError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *MonitorsError) Unwrap() error { return e.Err }

// Windows are the titles of the windows that can be captured, those in front
// first where the system says so.
func (s *Screen) Windows(ctx context.Context) ([]string, error) { return s.windows(ctx) }

// CaptureWindow takes a picture of the first window with exactly this title.
func (s *Screen) CaptureWindow(ctx context.Context, title string) (image.Image, error) {
	return s.captureWindow(ctx, title)
}

// CaptureDisplay takes a picture of a display; 0 is the main one.
func (s *Screen) CaptureDisplay(ctx context.Context, index uint64) (image.Image, error) {
	return s.captureDisplay(ctx, index)
}

// maxPixels bounds a picture; 16 displays of 4K side by side are fewer.
const maxPixels = 150_000_000

func checkSize(width, height int) error {
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return fmt.Errorf("a picture of %d x %d pixels cannot be taken", width, height)
	}
	return nil
}
