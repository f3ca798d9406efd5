//go:build unix && !darwin

package screen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"math/bits"

	"github.com/jezek/xgb/xproto"
)

var errHidden = errors.New("the window is outside of the screen; bring it in front")

// pictureOfWindow takes what of a window is on the screen; the server has no more.
func (x *x11) pictureOfWindow(id xproto.Window) (image.Image, error) {
	geometry, err := xproto.GetGeometry(x.conn, xproto.Drawable(id)).Reply()
	if err != nil {
		return nil, err
	}
	at, err := xproto.TranslateCoordinates(x.conn, id, x.root.Root, 0, 0).Reply()
	if err != nil {
		return nil, err
	}
	origin := image.Pt(int(at.DstX), int(at.DstY))
	whole := image.Rect(0, 0, int(geometry.Width), int(geometry.Height))
	seen := whole.Add(origin).Intersect(image.Rect(0, 0, int(x.root.WidthInPixels), int(x.root.HeightInPixels))).Sub(origin)
	if seen.Empty() {
		return nil, errHidden
	}
	return x.picture(xproto.Drawable(id), seen)
}

// picture asks for the pixels in rows of a bounded size: a reply has a limit.
func (x *x11) picture(from xproto.Drawable, area image.Rectangle) (image.Image, error) {
	if err := checkSize(area.Dx(), area.Dy()); err != nil {
		return nil, err
	}
	const replyPixels = 4 << 20
	rows := max(1, replyPixels/area.Dx())
	picture := image.NewRGBA(image.Rect(0, 0, area.Dx(), area.Dy()))
	for y := 0; y < area.Dy(); y += rows {
		n := min(rows, area.Dy()-y)
		reply, err := xproto.GetImage(x.conn, xproto.ImageFormatZPixmap, from, int16(area.Min.X), int16(area.Min.Y+y),
			uint16(area.Dx()), uint16(n), 1<<32-1).Reply()
		if err != nil {
			return nil, err
		}
		if err := x.pixels(picture, y, n, reply); err != nil {
			return nil, err
		}
	}
	return picture, nil
}

// pixels turns a reply's pixels of 32 bits into ours.
func (x *x11) pixels(picture *image.RGBA, y, n int, reply *xproto.GetImageReply) error {
	width := picture.Rect.Dx()
	if len(reply.Data) < width*n*4 {
		return fmt.Errorf("the display has a depth of %d bits; only 24 and 32 are understood", reply.Depth)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if xproto.Setup(x.conn).ImageByteOrder == xproto.ImageOrderMSBFirst {
		order = binary.BigEndian
	}
	red, green, blue := x.masks(reply.Visual)
	at := picture.Pix[y*picture.Stride:]
	for i := range width * n {
		v := order.Uint32(reply.Data[i*4:])
		at[i*4], at[i*4+1], at[i*4+2], at[i*4+3] = red.of(v), green.of(v), blue.of(v), 255
	}
	return nil
}

// A mask is where a colour is in a pixel.
type mask struct {
	bits  uint32
	shift int
	max   uint32
}

func newMask(m uint32) mask {
	shift := bits.TrailingZeros32(m)
	return mask{m, shift, max(1, m>>shift)}
}

func (m mask) of(pixel uint32) byte {
	if m.max == 255 {
		return byte(pixel & m.bits >> m.shift)
	}
	return byte(uint64(pixel&m.bits>>m.shift) * 255 / uint64(m.max))
}

// masks are those of a visual, or the ones that nearly all have.
func (x *x11) masks(visual xproto.Visualid) (red, green, blue mask) {
	for _, depth := range x.root.AllowedDepths {
		for _, v := range depth.Visuals {
			if v.VisualId == visual && v.RedMask != 0 {
				return newMask(v.RedMask), newMask(v.GreenMask), newMask(v.BlueMask)
			}
		}
	}
	return newMask(0xFF0000), newMask(0xFF00), newMask(0xFF)
}
