package screen

import (
	"context"
	"errors"
	"fmt"
	"image"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// libraries are the functions of Windows that x/sys does not have.
type libraries struct {
	user32, gdi32 *windows.LazyDLL
}

func load() libraries {
	return libraries{windows.NewLazySystemDLL("user32.dll"), windows.NewLazySystemDLL("gdi32.dll")}
}

// call is for functions that answer 0 when they fail.
func call(dll *windows.LazyDLL, name string, args ...uintptr) (uintptr, error) {
	f := dll.NewProc(name)
	if err := f.Find(); err != nil {
		return 0, err
	}
	r, _, err := f.Call(args...)
	if r == 0 {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

type window struct {
	handle windows.HWND
	title  string
}

// enumeration is what the callbacks of one search fill. Callbacks into Go are never
// given back, so there is one of each kind, and one search at a time.
type enumeration struct {
	mu        sync.Mutex
	windows   []window
	monitors  []image.Rectangle
	onWindow  func() uintptr
	onMonitor func() uintptr
	title     func(windows.HWND) string
}

var search = newEnumeration()

func newEnumeration() *enumeration {
	e := &enumeration{}
	e.onWindow = sync.OnceValue(func() uintptr {
		return windows.NewCallback(func(h windows.HWND, _ uintptr) uintptr {
			if windows.IsWindowVisible(h) {
				if title := e.title(h); title != "" {
					e.windows = append(e.windows, window{h, title})
				}
			}
			return 1
		})
	})
	e.onMonitor = sync.OnceValue(func() uintptr {
		return windows.NewCallback(func(_, _ uintptr, r *windows.Rect, _ uintptr) uintptr {
			at := image.Rect(int(r.Left), int(r.Top), int(r.Right), int(r.Bottom))
			if at.Min == (image.Point{}) { // the main one begins at the origin
				e.monitors = append([]image.Rectangle{at}, e.monitors...)
			} else {
				e.monitors = append(e.monitors, at)
			}
			return 1
		})
	})
	return e
}

func list(l libraries) ([]window, error) {
	search.mu.Lock()
	defer search.mu.Unlock()
	search.windows = nil
	search.title = func(h windows.HWND) string {
		var text [512]uint16
		n, err := call(l.user32, "GetWindowTextW", uintptr(h), uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
		if err != nil {
			return ""
		}
		return windows.UTF16ToString(text[:n])
	}
	err := windows.EnumWindows(search.onWindow(), nil)
	return search.windows, err
}

func monitors(l libraries) ([]image.Rectangle, error) {
	search.mu.Lock()
	defer search.mu.Unlock()
	search.monitors = nil
	_, err := call(l.user32, "EnumDisplayMonitors", 0, 0, search.onMonitor(), 0)
	return search.monitors, err
}

func (s *Screen) windows(context.Context) (titles []string, err error) {
	all, err := list(load())
	for _, w := range all {
		titles = append(titles, w.title)
	}
	return titles, err
}

func (s *Screen) captureWindow(_ context.Context, title string) (image.Image, error) {
	l := load()
	all, err := list(l)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if w.title != title {
			continue
		}
		var r windows.Rect
		if _, err := call(l.user32, "GetWindowRect", uintptr(w.handle), uintptr(unsafe.Pointer(&r))); err != nil {
			return nil, err
		}
		const wholeContent = 2 // also what is drawn by the graphics card
		return l.picture(image.Rect(0, 0, int(r.Right-r.Left), int(r.Bottom-r.Top)), func(screen, memory uintptr, _ image.Rectangle) error {
			_, err := call(l.user32, "PrintWindow", uintptr(w.handle), memory, wholeContent)
			return err
		})
	}
	return nil, ErrNoWindow
}

func (s *Screen) captureDisplay(_ context.Context, index uint64) (image.Image, error) {
	l := load()
	displays, err := monitors(l)
	if err != nil {
		return nil, &MonitorsError{err}
	}
	if index >= uint64(len(displays)) {
		return nil, &NoDisplayError{Index: index, Found: len(displays)}
	}
	return l.picture(displays[index], func(screen, memory uintptr, at image.Rectangle) error {
		const copyPixels, alsoLayered = 0x00CC0020, 0x40000000
		_, err := call(l.gdi32, "BitBlt", memory, 0, 0, uintptr(at.Dx()), uintptr(at.Dy()), screen,
			uintptr(at.Min.X), uintptr(at.Min.Y), copyPixels|alsoLayered)
		return err
	})
}

// picture has draw fill a bitmap and reads it.
func (l libraries) picture(at image.Rectangle, draw func(screen, memory uintptr, at image.Rectangle) error) (image.Image, error) {
	if err := checkSize(at.Dx(), at.Dy()); err != nil {
		return nil, err
	}
	screen, err := call(l.user32, "GetDC", 0)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = call(l.user32, "ReleaseDC", 0, screen) }()
	memory, err := call(l.gdi32, "CreateCompatibleDC", screen)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = call(l.gdi32, "DeleteDC", memory) }()
	bitmap, err := call(l.gdi32, "CreateCompatibleBitmap", screen, uintptr(at.Dx()), uintptr(at.Dy()))
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = call(l.gdi32, "DeleteObject", bitmap) }()
	before, err := call(l.gdi32, "SelectObject", memory, bitmap)
	if err != nil {
		return nil, err
	}
	err = draw(screen, memory, at)
	_, selectErr := call(l.gdi32, "SelectObject", memory, before)
	if err := errors.Join(err, selectErr); err != nil {
		return nil, err
	}
	return l.pixels(screen, bitmap, at)
}

// bitmapInfo is BITMAPINFOHEADER.
type bitmapInfo struct {
	size          uint32
	width, height int32
	planes, bits  uint16
	_             [6]uint32
}

func (l libraries) pixels(screen, bitmap uintptr, at image.Rectangle) (image.Image, error) {
	picture := image.NewRGBA(image.Rect(0, 0, at.Dx(), at.Dy()))
	info := bitmapInfo{width: int32(at.Dx()), height: -int32(at.Dy()), planes: 1, bits: 32} // negative: from the top
	info.size = uint32(unsafe.Sizeof(info))
	if _, err := call(l.gdi32, "GetDIBits", screen, bitmap, 0, uintptr(at.Dy()),
		uintptr(unsafe.Pointer(&picture.Pix[0])), uintptr(unsafe.Pointer(&info)), 0); err != nil {
		return nil, err
	}
	for i := 0; i < len(picture.Pix); i += 4 { // blue comes first, and the alpha is of no meaning
		picture.Pix[i], picture.Pix[i+2], picture.Pix[i+3] = picture.Pix[i+2], picture.Pix[i], 255
	}
	return picture, nil
}
