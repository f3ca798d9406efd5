//go:build unix && !darwin

package screen

import (
	"strings"

	"github.com/jezek/xgb/xproto"
)

// A window is one that a person knows by its title.
type window struct {
	id    xproto.Window
	title string
}

// maxWindows bounds the search; a program can make windows without end.
const maxWindows = 4096

// windows asks the window manager; where there is none, every window on the screen
// that has a class and a name counts.
func (x *x11) windows() (found []window, err error) {
	for _, id := range x.managed() {
		if title := x.title(id); title != "" && x.viewable(id) {
			found = append(found, window{id, title})
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	queue := []xproto.Window{x.root.Root}
	for n := 0; len(queue) > 0 && n < maxWindows; n++ {
		tree, err := xproto.QueryTree(x.conn, queue[0]).Reply()
		if queue = queue[1:]; err != nil {
			if len(queue) == 0 && n == 0 {
				return nil, err
			}
			continue // gone meanwhile
		}
		for i := len(tree.Children) - 1; i >= 0; i-- { // the last is in front
			id := tree.Children[i]
			if title := x.title(id); title != "" && x.property(id, "WM_CLASS") != nil && x.viewable(id) {
				found = append(found, window{id, title})
				continue
			}
			queue = append(queue, id)
		}
	}
	return found, nil
}

// managed are the windows that the window manager lists, those in front first.
func (x *x11) managed() (ids []xproto.Window) {
	for _, name := range []string{"_NET_CLIENT_LIST_STACKING", "_NET_CLIENT_LIST"} {
		p := x.property(x.root.Root, name)
		if p == nil || p.Format != 32 {
			continue
		}
		for i := len(p.Value) / 4; i > 0 && len(ids) < maxWindows; i-- {
			v := p.Value[i*4-4:]
			ids = append(ids, xproto.Window(uint32(v[0])|uint32(v[1])<<8|uint32(v[2])<<16|uint32(v[3])<<24))
		}
		return ids
	}
	return nil
}

func (x *x11) viewable(id xproto.Window) bool {
	a, err := xproto.GetWindowAttributes(x.conn, id).Reply()
	return err == nil && a.MapState == xproto.MapStateViewable
}

// title is a window's name: in UTF-8 where it says so, else in Latin-1.
func (x *x11) title(id xproto.Window) string {
	if p := x.property(id, "_NET_WM_NAME"); p != nil {
		return clean(string(p.Value))
	}
	p := x.property(id, "WM_NAME")
	if p == nil {
		return ""
	}
	if p.Type != xproto.AtomString {
		return clean(string(p.Value))
	}
	var b strings.Builder
	for _, c := range p.Value {
		b.WriteRune(rune(c))
	}
	return clean(b.String())
}

// clean makes one valid line of what a program calls its window.
func clean(title string) string {
	return strings.TrimSpace(strings.ToValidUTF8(strings.NewReplacer("\n", " ", "\r", " ", "\x00", "").Replace(title), "\uFFFD"))
}

// property is nil when the window does not have it.
func (x *x11) property(id xproto.Window, name string) *xproto.GetPropertyReply {
	const words = 4096
	atom, err := xproto.InternAtom(x.conn, true, uint16(len(name)), name).Reply()
	if err != nil || atom.Atom == xproto.AtomNone {
		return nil
	}
	p, err := xproto.GetProperty(x.conn, false, id, atom.Atom, xproto.GetPropertyTypeAny, 0, words).Reply()
	if err != nil || len(p.Value) == 0 {
		return nil
	}
	return p
}
