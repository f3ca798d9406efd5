//go:build unix && !darwin

package screen

import (
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"log"
	"sync"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xproto"
)

// quiet keeps the library from writing to stderr; it has one logger for all.
var quiet = sync.OnceFunc(func() { xgb.Logger = log.New(io.Discard, "", 0) })

// x11 is a connection to the X server.
type x11 struct {
	conn *xgb.Conn
	root *xproto.ScreenInfo
}

// ask connects and runs f. It gives up when ctx ends.
func ask[T any](ctx context.Context, s *Screen, f func(*x11) (T, error)) (answer T, err error) {
	if s.o.Display == "" {
		if s.o.Wayland != "" {
			return answer, &MonitorsError{errors.New("this is a Wayland session without X11, where no program sees others' windows; take the picture with the desktop's own program and name its file")}
		}
		return answer, &MonitorsError{errors.New("there is no display: DISPLAY is not set; start the server in a graphical session")}
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := connected(ctx, s.o.Display, f)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err() // the connection is closed as well, which ends the goroutine
	}
}

func connected[T any](ctx context.Context, display string, f func(*x11) (T, error)) (answer T, err error) {
	quiet()
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		return answer, &MonitorsError{fmt.Errorf("connecting to the X11 display %s: %w", display, err)}
	}
	stop := context.AfterFunc(ctx, conn.Close)
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	return f(&x11{conn: conn, root: xproto.Setup(conn).DefaultScreen(conn)})
}

func (s *Screen) windows(ctx context.Context) ([]string, error) {
	all, err := ask(ctx, s, (*x11).windows)
	var titles []string
	for _, w := range all {
		titles = append(titles, w.title)
	}
	return titles, err
}

func (s *Screen) captureWindow(ctx context.Context, title string) (image.Image, error) {
	return ask(ctx, s, func(x *x11) (image.Image, error) {
		all, err := x.windows()
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if w.title == title {
				return x.pictureOfWindow(w.id)
			}
		}
		return nil, ErrNoWindow
	})
}

func (s *Screen) captureDisplay(ctx context.Context, index uint64) (image.Image, error) {
	return ask(ctx, s, func(x *x11) (image.Image, error) {
		if s.o.Wayland != "" {
			return nil, errors.New("this is a Wayland session, where no program sees the whole display; take the picture with the desktop's own program and name its file")
		}
		displays := x.displays()
		if index >= uint64(len(displays)) {
			return nil, &NoDisplayError{Index: index, Found: len(displays)}
		}
		return x.picture(xproto.Drawable(x.root.Root), displays[index])
	})
}

// displays are where the monitors are, the main one first; without the RandR
// extension they are one.
func (x *x11) displays() []image.Rectangle {
	whole := []image.Rectangle{image.Rect(0, 0, int(x.root.WidthInPixels), int(x.root.HeightInPixels))}
	if err := randr.Init(x.conn); err != nil {
		return whole
	}
	reply, err := randr.GetMonitors(x.conn, x.root.Root, true).Reply()
	if err != nil || len(reply.Monitors) == 0 {
		return whole
	}
	var displays []image.Rectangle
	for _, m := range reply.Monitors {
		at := image.Rect(int(m.X), int(m.Y), int(m.X)+int(m.Width), int(m.Y)+int(m.Height))
		if m.Primary {
			displays = append([]image.Rectangle{at}, displays...)
		} else {
			displays = append(displays, at)
		}
	}
	return displays
}
