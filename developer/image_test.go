package developer

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// quarters is a picture whose corners are red, green, blue and white, as read.
func quarters(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			colours := []color.NRGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}
			m.SetNRGBA(x, y, colours[x*2/w+y*2/h*2])
		}
	}
	return m
}

func encodedPicture(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// process runs the tool on a file and decodes what it answers.
func process(t *testing.T, name string, data []byte) (image.Image, error) {
	t.Helper()
	dir := t.TempDir()
	if data != nil {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	result, err := callImageProcessor(t, dir, name)
	if err != nil {
		return nil, err
	}
	if len(result.Content) != 2 || result.Content[1].MimeType != "image/jpeg" || result.Content[1].Priority == nil || result.Content[1].Audience != nil {
		t.Fatalf("the blocks are %+v", result.Content)
	}
	m, err := jpeg.Decode(bytes.NewReader(result.Content[1].Data))
	if err != nil {
		t.Fatal(err)
	}
	return m, nil
}

func callImageProcessor(t *testing.T, dir, name string) (Result, error) {
	t.Helper()
	s := NewSpaces(SpacesOptions{WorkingDir: dir})
	defer s.Close()
	return imageProcessorTool(s).Call(t.Context(), Call{Arguments: []byte(`{"path":"` + filepath.ToSlash(name) + `"}`)})
}

// corners names the colours of the corners, as they are read.
func corners(m image.Image) string {
	var names strings.Builder
	b := m.Bounds()
	for _, p := range []image.Point{{b.Dx() / 4, b.Dy() / 4}, {b.Dx() * 3 / 4, b.Dy() / 4}, {b.Dx() / 4, b.Dy() * 3 / 4}, {b.Dx() * 3 / 4, b.Dy() * 3 / 4}} {
		r, g, b, _ := m.At(p.X, p.Y).RGBA()
		names.WriteByte(map[[3]bool]byte{{true, false, false}: 'r', {false, true, false}: 'g', {false, false, true}: 'b', {true, true, true}: 'w', {}: 'k'}[[3]bool{r > 0x8000, g > 0x8000, b > 0x8000}])
	}
	return names.String()
}

// A picture of 1 x 1 in webp; the library has no encoder.
const whiteWebP = "RIFF\x24\x00\x00\x00WEBPVP8 \x18\x00\x00\x000\x01\x00\x9d\x01\x2a\x01\x00\x01\x00\x02\x00\x34\x25\xa4\x00\x03\x70\x00\xfe\xfb\x94\x00\x00"

func TestImageFormats(t *testing.T) {
	m := quarters(60, 40)
	tests := map[string][]byte{
		"a.png": encodedPicture(t, func(b *bytes.Buffer) error { return png.Encode(b, m) }),
		"a.jpg": encodedPicture(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) }),
		"a.gif": encodedPicture(t, func(b *bytes.Buffer) error { return gif.Encode(b, m, nil) }),
		"a.bmp": encodedPicture(t, func(b *bytes.Buffer) error { return bmp.Encode(b, m) }),
		"a.tif": encodedPicture(t, func(b *bytes.Buffer) error { return tiff.Encode(b, m, nil) }),
	}
	for name, data := range tests {
		got, err := process(t, name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Bounds() != m.Rect || corners(got) != "rgbw" {
			t.Errorf("%s became %v with corners %s", name, got.Bounds(), corners(got))
		}
	}
	if got, err := process(t, "a.webp", []byte(whiteWebP)); err != nil || got.Bounds().Dx() != 1 {
		t.Errorf("webp: %v, %v", got, err)
	}
}

func TestImageSizes(t *testing.T) {
	for _, tt := range []struct{ w, h, wantW, wantH int }{
		{1040, 130, 1024, 128}, {65, 2080, 32, 1024}, {1024, 10, 1024, 10}, {1025, 1, 1024, 1}, {3, 2, 3, 2},
	} {
		got, err := process(t, "a.png", encodedPicture(t, func(b *bytes.Buffer) error { return png.Encode(b, quarters(tt.w, tt.h)) }))
		if err != nil {
			t.Fatal(err)
		}
		if got.Bounds().Dx() != tt.wantW || got.Bounds().Dy() != tt.wantH {
			t.Errorf("%d x %d became %v, want %d x %d", tt.w, tt.h, got.Bounds(), tt.wantW, tt.wantH)
		}
	}
}

func TestTransparentIsWhite(t *testing.T) {
	for _, size := range []int{10, 1100} {
		got, err := process(t, "a.png", encodedPicture(t, func(b *bytes.Buffer) error { return png.Encode(b, image.NewNRGBA(image.Rect(0, 0, size, 10))) }))
		if err != nil || corners(got) != "wwww" {
			t.Errorf("%d transparent pixels: %v, %v", size, got, err)
		}
	}
}

// exif is an Exif block with an orientation.
func exif(order binary.AppendByteOrder, mark string, o uint16) []byte {
	b := []byte(mark)
	b = order.AppendUint16(b, 42)
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2) // entries: some other, and ours
	for _, e := range []struct{ tag, value uint16 }{{0x0100, 9}, {0x0112, o}} {
		b = order.AppendUint16(b, e.tag)
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, e.value)
		b = order.AppendUint16(b, 0)
	}
	return order.AppendUint32(b, 0)
}

func withExifJPEG(data, block []byte) []byte {
	block = append([]byte("Exif\x00\x00"), block...)
	segment := binary.BigEndian.AppendUint16([]byte{0xFF, 0xE1}, uint16(len(block)+2))
	return append(append(append([]byte{}, data[:2]...), append(segment, block...)...), data[2:]...)
}

func pngChunk(name string, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(append(b, name...), body...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func TestOrientation(t *testing.T) {
	m := quarters(60, 40)
	data := encodedPicture(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) })
	for o, want := range map[uint16]string{0: "rgbw", 1: "rgbw", 2: "grwb", 3: "wbgr", 4: "bwrg", 5: "rbgw", 6: "brwg", 7: "wgbr", 8: "gwrb", 9: "rgbw"} {
		for mark, order := range map[string]binary.AppendByteOrder{"II": binary.LittleEndian, "MM": binary.BigEndian} {
			got, err := process(t, "a.jpg", withExifJPEG(data, exif(order, mark, o)))
			if err != nil {
				t.Fatal(err)
			}
			size := image.Pt(60, 40)
			if o >= 5 && o <= 8 {
				size = image.Pt(40, 60)
			}
			if got.Bounds().Size() != size || corners(got) != want {
				t.Errorf("orientation %d, %s: %v with corners %s, want %s", o, mark, got.Bounds(), corners(got), want)
			}
		}
	}
	picture := encodedPicture(t, func(b *bytes.Buffer) error { return png.Encode(b, m) })
	const head = 8 + 25 // signature and IHDR
	turned := append(append(append([]byte{}, picture[:head]...), pngChunk("eXIf", exif(binary.BigEndian, "MM", 3))...), picture[head:]...)
	if got, err := process(t, "a.png", turned); err != nil || corners(got) != "wbgr" {
		t.Errorf("png: %v", err)
	}
	webp := append([]byte(whiteWebP), append([]byte("EXIF\x26\x00\x00\x00"), exif(binary.LittleEndian, "II", 8)...)...)
	if o := orientationOf(webp); o != 8 {
		t.Errorf("webp: orientation %d", o)
	}
}

func FuzzOrientation(f *testing.F) {
	f.Add([]byte(whiteWebP))
	f.Add(exif(binary.BigEndian, "MM", 6))
	f.Add(withExifJPEG([]byte("\xFF\xD8\xFF\xD9"), exif(binary.LittleEndian, "II", 6)))
	f.Add(append([]byte("\x89PNG\r\n\x1a\n"), pngChunk("eXIf", exif(binary.BigEndian, "MM", 3))...))
	f.Fuzz(func(_ *testing.T, data []byte) { orientationOf(data) })
}

// bomb is a small png that claims to be large.
func bomb(t *testing.T, w, h uint32) []byte {
	t.Helper()
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	header = append(header, 8, 6, 0, 0, 0)
	body := encodedPicture(t, func(b *bytes.Buffer) error {
		z := zlib.NewWriter(b)
		_, _ = z.Write(make([]byte, 1<<20))
		return z.Close()
	})
	return append(append(append([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", header)...), pngChunk("IDAT", body)...), pngChunk("IEND", nil)...)
}

func TestImageErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"missing.png", nil, "missing.png' does not exist"},
		{"large.png", make([]byte, 11<<20), "large.png' is too large (11.00MB). Maximum size is 10MB."},
		{"text.png", []byte("not a picture"), "Failed to open image file: the format is not known"},
		{"bomb.png", bomb(t, 60_000, 60_000), "Failed to open image file: the picture has 60000 x 60000 pixels"},
		{"cut.png", bomb(t, 100, 100)[:60], "Failed to open image file: "},
		{"empty.png", []byte{}, "Failed to open image file: "},
	} {
		_, err := process(t, tt.name, tt.data)
		e, ok := err.(*Error)
		if !ok || e.Code != InternalError || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := callImageProcessor(t, dir, ".env")
	if err == nil || err.Error() != "Access to '"+filepath.Join(dir, ".env")+"' is restricted by .gooseignore" {
		t.Errorf("a hidden file: %v", err)
	}
}

func TestScreenshotNames(t *testing.T) {
	data := encodedPicture(t, func(b *bytes.Buffer) error { return png.Encode(b, quarters(4, 4)) })
	const typed = "Screenshot 2025-01-02 at 3.04.05 PM (2).png"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, strings.Replace(typed, " PM", "\u202fPM", 1)), data, 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := callImageProcessor(t, dir, typed)
	if err != nil || !strings.Contains(result.Content[0].Text, "\u202fPM") {
		t.Errorf("the name as typed: %v, %v", result.Content, err)
	}
	if err := os.WriteFile(filepath.Join(dir, typed), data, 0o600); err != nil {
		t.Fatal(err)
	}
	result, err = callImageProcessor(t, dir, typed)
	if err != nil || strings.Contains(result.Content[0].Text, "\u202f") {
		t.Errorf("a file of that very name: %v, %v", result.Content, err)
	}
}
