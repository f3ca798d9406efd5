//go:build unix && !darwin

package screen_test

import (
	"bufio"
	"context"
	"errors"
	"image/color"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"go.uber.org/goleak"

	"gander.dev/gander/developer/screen"
)

func TestMain(m *testing.M) {
	// The library's connections end a little after they are closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/jezek/xgb.(*Conn).generateXIds"))
}

// program finds a program that the tests need; make soak installs them.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("GANDER_EVERYWHERE") == "1" {
		t.Fatalf("%s is missing: apt-get install xvfb xterm", name)
	}
	if err != nil {
		t.Skipf("%s is missing: apt-get install xvfb xterm", name)
	}
	return path
}

// start runs a program until the test ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// xserver starts an X server with a screen of 800 x 600 pixels.
func xserver(t *testing.T) string {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(program(t, "Xvfb"), "-displayfd", "3", "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{out}
	start(t, cmd)
	out.Close()
	number, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb did not start: %v", err)
	}
	return ":" + strings.TrimSpace(number)
}

// A client is a program with windows.
type client struct {
	t    *testing.T
	conn *xgb.Conn
	root *xproto.ScreenInfo
}

func newClient(t *testing.T, display string) *client {
	t.Helper()
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &client{t, conn, xproto.Setup(conn).DefaultScreen(conn)}
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) set(id xproto.Window, name string, kind xproto.Atom, format byte, value []byte) {
	c.t.Helper()
	atom, err := xproto.InternAtom(c.conn, false, uint16(len(name)), name).Reply()
	c.must(err)
	c.must(xproto.ChangePropertyChecked(c.conn, xproto.PropModeReplace, id, atom.Atom, kind, format, uint32(len(value)/int(format/8)), value).Check())
}

// window makes a window of one colour; its name is in Latin-1.
func (c *client) window(x, y int16, width, height uint16, rgb uint32, latin1 string) xproto.Window {
	c.t.Helper()
	id, err := xproto.NewWindowId(c.conn)
	c.must(err)
	c.must(xproto.CreateWindowChecked(c.conn, c.root.RootDepth, id, c.root.Root, x, y, width, height, 0,
		xproto.WindowClassInputOutput, c.root.RootVisual, xproto.CwBackPixel, []uint32{rgb}).Check())
	c.set(id, "WM_CLASS", xproto.AtomString, 8, []byte("test\x00Test\x00"))
	c.set(id, "WM_NAME", xproto.AtomString, 8, []byte(latin1))
	c.must(xproto.MapWindowChecked(c.conn, id).Check())
	c.must(xproto.ClearAreaChecked(c.conn, false, id, 0, 0, 0, 0).Check())
	return id
}

func TestWindowsAndPictures(t *testing.T) {
	display := xserver(t)
	c := newClient(t, display)
	s := screen.New(screen.Options{Display: display})
	red := c.window(100, 50, 40, 30, 0xFF0000, "caf\xe9")
	c.window(-10, 560, 60, 80, 0x0000FF, "over the edge")
	hidden := c.window(0, 0, 10, 10, 0, "not mapped")
	c.must(xproto.UnmapWindowChecked(c.conn, hidden).Check())

	titles, err := s.Windows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"over the edge", "café"}; !slices.Equal(titles, want) {
		t.Errorf("windows = %q, want %q", titles, want)
	}

	picture, err := s.CaptureWindow(t.Context(), "café")
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != 40 || b.Dy() != 30 || picture.At(20, 15) != (color.RGBA{255, 0, 0, 255}) {
		t.Errorf("the red window is %v with %v in its middle", b, picture.At(20, 15))
	}
	picture, err = s.CaptureWindow(t.Context(), "over the edge")
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != 50 || b.Dy() != 40 || picture.At(0, 0) != (color.RGBA{0, 0, 255, 255}) {
		t.Errorf("what is seen of the blue window is %v with %v", b, picture.At(0, 0))
	}
	picture, err = s.CaptureDisplay(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != 800 || b.Dy() != 600 || picture.At(120, 60) != (color.RGBA{255, 0, 0, 255}) {
		t.Errorf("the display is %v with %v where the red window is", b, picture.At(120, 60))
	}

	// A window manager's list counts, with the names that it knows, and not what else there is.
	c.set(red, "_NET_WM_NAME", xproto.AtomString, 8, []byte("naïve ✓"))
	order := []byte{byte(red), byte(red >> 8), byte(red >> 16), byte(red >> 24)}
	c.set(c.root.Root, "_NET_CLIENT_LIST", xproto.AtomWindow, 32, order)
	if titles, err = s.Windows(t.Context()); err != nil || !slices.Equal(titles, []string{"naïve ✓"}) {
		t.Errorf("windows = %q, %v; want the one of the window manager", titles, err)
	}
}

func TestRealProgram(t *testing.T) {
	display := xserver(t)
	const title = "a real terminal"
	xterm := exec.Command(program(t, "xterm"), "-T", title, "-geometry", "40x10+20+20", "-bg", "white", "-e", "sleep", "1000")
	xterm.Env = append(os.Environ(), "DISPLAY="+display)
	start(t, xterm)
	s := screen.New(screen.Options{Display: display})
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		titles, err := s.Windows(deadline)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(titles, title) {
			break
		}
		select { // nothing tells when a program has drawn its window
		case <-time.After(50 * time.Millisecond):
		case <-deadline.Done():
			t.Fatalf("no window of xterm; windows = %q", titles)
		}
	}
	picture, err := s.CaptureWindow(t.Context(), title)
	if err != nil || picture.Bounds().Dx() < 100 {
		t.Fatalf("capturing the terminal: %v, %v", picture, err)
	}
}

func TestNothingToSee(t *testing.T) {
	display := xserver(t)
	s := screen.New(screen.Options{Display: display})
	if _, err := s.CaptureWindow(t.Context(), "nobody"); !errors.Is(err, screen.ErrNoWindow) {
		t.Errorf("a window that is not there: %v", err)
	}
	_, err := s.CaptureDisplay(t.Context(), 7)
	if none, ok := errors.AsType[*screen.NoDisplayError](err); !ok || none.Index != 7 || none.Found != 1 {
		t.Errorf("a display that is not there: %v", err)
	}
	wayland := screen.New(screen.Options{Display: display, Wayland: "wayland-0"})
	if _, err := wayland.CaptureDisplay(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "Wayland") {
		t.Errorf("a display of Wayland: %v", err)
	}
}

func TestNoDisplay(t *testing.T) {
	for name, o := range map[string]screen.Options{
		"nothing set": {}, "Wayland alone": {Wayland: "wayland-0"}, "nobody there": {Display: ":65000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := screen.New(o)
			if _, err := s.Windows(t.Context()); err == nil {
				t.Error("windows without a display")
			}
			_, err := s.CaptureDisplay(t.Context(), 0)
			if _, ok := errors.AsType[*screen.MonitorsError](err); !ok {
				t.Errorf("a picture without a display: %v", err)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := screen.New(screen.Options{Display: ":65000"}).Windows(ctx); err == nil {
		t.Error("windows after the end of the call")
	}
}
