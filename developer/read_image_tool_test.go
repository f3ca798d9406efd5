package developer

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// testImage is 20 by 10, its left half red.
func testImage() image.Image {
	m := image.NewPaletted(image.Rect(0, 0, 20, 10), color.Palette{color.White, color.RGBA{255, 0, 0, 255}})
	for y := range 10 {
		for x := range 10 {
			m.SetColorIndex(x, y, 1)
		}
	}
	return m
}

func encoded(t *testing.T, kind string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, testImage())
	case "jpeg":
		err = jpeg.Encode(&b, testImage(), nil)
	case "gif":
		err = gif.Encode(&b, testImage(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newImageBench(t *testing.T) currentBench {
	t.Helper()
	c := newCurrentBench(t)
	spaces := NewSpaces(SpacesOptions{WorkingDir: c.dir})
	t.Cleanup(func() {
		if err := spaces.Close(); err != nil {
			t.Error(err)
		}
	})
	c.tools["read_image"] = readImageTool(spaces)
	return c
}

func (c currentBench) image(arguments string) Result {
	c.t.Helper()
	result, err := c.tools["read_image"].Call(c.t.Context(), Call{Arguments: json.RawMessage(arguments)})
	if err != nil || result.IsError || len(result.Content) != 2 {
		c.t.Fatalf("%s: %v, %v", arguments, result, err)
	}
	return result
}

// Downloads wait for each other when there are many, and nothing else waits for them.
func TestSlowDownloads(t *testing.T) {
	c := newImageBench(t)
	c.file("img.png", string(encoded(t, "png")))
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = w.Write(encoded(t, "png"))
	}))
	defer server.Close()
	remote := Call{Arguments: json.RawMessage(`{"source":"` + server.URL + `"}`)}
	var slow sync.WaitGroup
	for range 4 {
		slow.Go(func() {
			result, err := c.tools["read_image"].Call(t.Context(), remote)
			if err != nil || result.IsError {
				t.Errorf("a slow one: %v, %v", result, err)
			}
		})
	}
	for range 4 {
		<-asked
	}
	c.image(`{"source":"img.png"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if result, err := c.tools["read_image"].Call(ctx, remote); !errors.Is(err, context.DeadlineExceeded) || len(asked) > 0 {
		t.Errorf("the fifth: %v, %v", result, err)
	}
	close(answer)
	slow.Wait()
}

// One picture is in memory at a time: a call waits for another one's, until it is cancelled.
func TestImagesAreReadOneByOne(t *testing.T) {
	c := newImageBench(t)
	c.file("img.png", string(encoded(t, "png")))
	in := imageTurns{downloads: make(turns, 4), pictures: make(turns, 1)}
	leave, err := in.pictures.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spaces := NewSpaces(SpacesOptions{WorkingDir: c.dir})
	defer spaces.Close()
	space, err := spaces.For("")
	if err != nil {
		t.Fatal(err)
	}
	call := Call{Arguments: json.RawMessage(`{"source":"img.png"}`)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if result, err := in.readImage(ctx, space, call, "img.png"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside another: %v, %v", result, err)
	}
	leave()
	if result, err := in.readImage(t.Context(), space, call, "img.png"); err != nil || len(result.Content) != 2 {
		t.Errorf("after it: %v, %v", result, err)
	}
}

func TestReadImage(t *testing.T) {
	c := newImageBench(t)
	// The smallest lossless WebP: one pixel.
	c.file("one.webp", "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")
	for _, kind := range []string{"png", "jpeg", "gif"} {
		c.file("img."+kind, string(encoded(t, kind)))
	}
	c.file("png-called.jpg", string(encoded(t, "png")))
	for name, want := range map[string]string{
		"img.png": "image/png, 20x10", "img.jpeg": "image/jpeg, 20x10", "img.gif": "image/gif, 20x10", "png-called.jpg": "image/png, 20x10", "one.webp": "image/webp, 1x1",
	} {
		r := c.image(`{"source":"` + name + `","crop":null}`)
		mime, _, _ := strings.Cut(want, ",")
		data := c.content(name)
		if want := fmt.Sprintf("Loaded image from %s (%d bytes, %s).", name, len(data), want); r.Content[0].Text != want {
			t.Errorf("%q, want %q", r.Content[0].Text, want)
		}
		if string(r.Content[1].Data) != data || r.Content[1].MimeType != mime {
			t.Errorf("%s came as %d bytes of %s", name, len(r.Content[1].Data), r.Content[1].MimeType)
		}
	}
}

func TestReadImageCrop(t *testing.T) {
	c := newImageBench(t)
	c.file("img.png", string(encoded(t, "png")))
	r := c.image(`{"source":"img.png","crop":{"x":8,"y":2,"width":5,"height":3}}`)
	part, err := png.Decode(bytes.NewReader(r.Content[1].Data))
	if err != nil {
		t.Fatal(err)
	}
	if part.Bounds() != image.Rect(0, 0, 5, 3) {
		t.Errorf("bounds %v", part.Bounds())
	}
	for x, want := range []uint32{0, 0, 0xffff, 0xffff, 0xffff} { // how green: the red ends at 10
		if _, g, _, _ := part.At(x, 1).RGBA(); g != want {
			t.Errorf("pixel %d has green %x, want %x", x, g, want)
		}
	}
	if want := fmt.Sprintf("Loaded image from img.png (%d bytes, image/png, 5x3). Cropped from 20x10 to 5x3.", len(r.Content[1].Data)); r.Content[0].Text != want {
		t.Errorf("%q, want %q", r.Content[0].Text, want)
	}
	var got struct {
		Source                        string
		OriginalWidth, OriginalHeight int
		Width, Height, Bytes          int
		Crop                          map[string]int
	}
	if err := json.Unmarshal(r.Structured, &got); err != nil || got.OriginalWidth != 20 || got.Height != 3 || got.Crop["x"] != 8 || got.Bytes != len(r.Content[1].Data) {
		t.Errorf("structured %s, %v", r.Structured, err)
	}
}

// The texts are those that the real goose 1.52 answered.
func TestReadImageRefuses(t *testing.T) {
	c := newImageBench(t)
	c.file("img.png", string(encoded(t, "png")))
	c.file("z.txt", "a\n")
	c.file("zero.txt", "")
	c.file("cut.png", string(encoded(t, "png")[:20]))
	c.file("sub/x", "")
	c.file("large.png", "")
	if err := os.Truncate(c.path("large.png"), maxReadImageBytes+1); err != nil {
		t.Fatal(err)
	}
	huge := encoded(t, "png")
	copy(huge[16:24], "\x00\x00\xff\xff\x00\x00\xff\xff") // it says that it is 65535 pixels wide and high
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	c.file("huge.png", string(huge))
	const unsupported = "!Error: unsupported image format; supported formats are png, jpeg, gif, and webp"
	c.says("read_image", `{"source":"z.txt"}`, unsupported)
	c.says("read_image", `{"source":"zero.txt"}`, unsupported)
	c.says("read_image", `{"source":""}`, "!Error: source cannot be empty")
	c.says("read_image", `{}`, "!Error: Failed to parse arguments: missing field `source`")
	c.says("read_image", `{"source":"img.png","crop":{"x":15,"y":0,"width":50,"height":5}}`, "!Error: crop rectangle 50x5 at 15,0 exceeds image bounds 20x10")
	c.says("read_image", `{"source":"img.png","crop":{"x":4294967295,"y":0,"width":4294967295,"height":5}}`, "!Error: crop rectangle 4294967295x5 at 4294967295,0 exceeds image bounds 20x10")
	c.says("read_image", `{"source":"img.png","crop":{"x":0,"y":0,"width":0,"height":5}}`, "!Error: crop width and height must be greater than zero")
	c.says("read_image", `{"source":"huge.png","crop":{"x":0,"y":0,"width":5,"height":5}}`, "!Error: image is too large to crop: 65535x65535 exceeds 50000000 pixels")
	c.says("read_image", `{"source":"large.png"}`, "!Error: image is too large: 20971521 bytes exceeds 20971520 byte limit")
	c.says("read_image", `{"source":"cut.png"}`, "!Error: failed to decode image: unexpected EOF")
	if runtime.GOOS != "windows" {
		c.says("read_image", `{"source":"nope.png"}`, "!Error: failed to read image file: No such file or directory (os error 2)")
		c.says("read_image", `{"source":"sub"}`, "!Error: failed to read image file: Is a directory (os error 21)")
	}
}

func TestReadImageURL(t *testing.T) {
	c := newImageBench(t)
	data := encoded(t, "png")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/img.png":
			_, _ = w.Write(data)
		case "/large":
			_, _ = w.Write(make([]byte, maxReadImageBytes+1))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	c.file("img.png", string(data))
	for _, source := range []string{server.URL + "/img.png", "file://" + filepath.ToSlash(c.path("img.png"))} {
		if r := c.image(`{"source":"` + source + `"}`); string(r.Content[1].Data) != string(data) {
			t.Errorf("%s came as %d bytes", source, len(r.Content[1].Data))
		}
	}
	c.says("read_image", `{"source":"`+server.URL+`/none"}`, "!Error: failed to download image: the server answered 404 Not Found")
	c.says("read_image", `{"source":"`+server.URL+`/large"}`, "!Error: image is too large: 20971521 bytes exceeds 20971520 byte limit")
	c.says("read_image", `{"source":"file://elsewhere/x"}`, "!Error: invalid file URL")
}
