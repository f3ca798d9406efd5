package developer

import (
	"bytes"
	"encoding/binary"
	"image"
)

// An orientation is the Exif tag of that name: which way up a camera was held.
// Everything but 2 to 8 means upright.
type orientation uint16

// orientationOf finds the tag in a jpeg, png, webp or tiff file.
func orientationOf(data []byte) orientation {
	switch {
	case bytes.HasPrefix(data, []byte("\xFF\xD8")):
		return tiffOrientation(exifInJPEG(data))
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return tiffOrientation(chunk(data[8:], "eXIf", binary.BigEndian, 4, 1))
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return tiffOrientation(bytes.TrimPrefix(chunk(data[12:], "EXIF", binary.LittleEndian, 0, 2), []byte("Exif\x00\x00")))
	case bytes.HasPrefix(data, []byte("II*\x00")), bytes.HasPrefix(data, []byte("MM\x00*")):
		return tiffOrientation(data)
	}
	return 1
}

// exifInJPEG walks the segments before the picture.
func exifInJPEG(data []byte) []byte {
	for rest := data[2:]; len(rest) >= 4 && rest[0] == 0xFF && rest[1] != 0xDA; {
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if size < 2 || len(rest) < 2+size {
			return nil
		}
		if body, ok := bytes.CutPrefix(rest[4:2+size], []byte("Exif\x00\x00")); ok && rest[1] == 0xE1 {
			return body
		}
		rest = rest[2+size:]
	}
	return nil
}

// chunk finds a chunk of a png, which has its length before its name and a sum of
// so many bytes behind it, or of a webp, which has its length behind its name.
func chunk(data []byte, name string, order binary.ByteOrder, sum, align int) []byte {
	for len(data) >= 8 {
		nameAt, sizeAt := 0, 4
		if sum > 0 {
			nameAt, sizeAt = 4, 0
		}
		size := int64(order.Uint32(data[sizeAt:]))
		if size > int64(len(data)-8) {
			return nil
		}
		body := data[8 : 8+size]
		if string(data[nameAt:nameAt+4]) == name {
			return body
		}
		next := 8 + int(size) + sum
		next += (align - next%align) % align
		if next > len(data) {
			return nil
		}
		data = data[next:]
	}
	return nil
}

// tiffOrientation reads the tag in the first directory of a TIFF, which is what
// Exif is.
func tiffOrientation(data []byte) orientation {
	if len(data) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if data[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int64(order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return 1
	}
	entries := int64(order.Uint16(data[at:]))
	for i := range entries {
		entry := at + 2 + i*12
		if entry+12 > int64(len(data)) {
			return 1
		}
		const tag, short = 0x0112, 3
		if order.Uint16(data[entry:]) == tag && order.Uint16(data[entry+2:]) == short {
			return orientation(order.Uint16(data[entry+8:]))
		}
	}
	return 1
}

// upright turns and mirrors a picture so that up is up.
func (o orientation) upright(picture *image.RGBA) *image.RGBA {
	if o < 2 || o > 8 {
		return picture
	}
	w, h := picture.Rect.Dx(), picture.Rect.Dy()
	size := image.Pt(w, h)
	if o >= 5 {
		size = image.Pt(h, w)
	}
	turned := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			from := o.source(x, y, w, h)
			copy(turned.Pix[turned.PixOffset(x, y):], picture.Pix[picture.PixOffset(from.X, from.Y):][:4])
		}
	}
	return turned
}

// source is the pixel of the stored picture, w by h, that is seen at x, y.
func (o orientation) source(x, y, w, h int) image.Point {
	switch o {
	case 2:
		return image.Pt(w-1-x, y)
	case 3:
		return image.Pt(w-1-x, h-1-y)
	case 4:
		return image.Pt(x, h-1-y)
	case 5:
		return image.Pt(y, x)
	case 6:
		return image.Pt(y, h-1-x)
	case 7:
		return image.Pt(w-1-y, h-1-x)
	}
	return image.Pt(w-1-y, x)
}
