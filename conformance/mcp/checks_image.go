package mcp

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
)

func imageChecks() []Check {
	return []Check{
		{ID: "image.large", Profile: Classic, Requirements: []int{71}, needs: []string{"image_processor"}, run: checkImageLarge, Text: "an image becomes a JPEG whose longer side is 1024 at most, in its proportions"},
		{ID: "image.formats", Profile: Classic, Requirements: []int{71}, needs: []string{"image_processor"}, run: checkImageFormats, Text: "PNG, JPEG and GIF are read, and small images keep their size"},
		{ID: "image.errors", Profile: Classic, Requirements: []int{48, 71}, needs: []string{"image_processor"}, run: checkImageErrors, Text: "missing, huge and undecodable files are refused"},
		{ID: "image.windows", Requirements: []int{71}, needs: []string{"list_windows"}, run: checkWindows, Text: "list_windows lists, or says why it cannot"},
		{ID: "image.screen", Requirements: []int{71}, needs: []string{"screen_capture"}, run: checkScreen, Text: "screen_capture shows the screen, or says why it cannot; a window that is not there is an error"},
	}
}

// picture is an image with something to see in it.
func picture(width, height int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.Set(x, y, color.NRGBA{uint8(x), uint8(y), 200, 255})
		}
	}
	return img
}

// writeImage makes a file of an image in the format of its extension.
func (p *probe) writeImage(name string, img image.Image) {
	var b bytes.Buffer
	var err error
	switch {
	case strings.HasSuffix(name, ".gif"):
		err = gif.Encode(&b, img, nil)
	case strings.HasSuffix(name, ".jpg"):
		err = jpeg.Encode(&b, img, nil)
	default:
		err = png.Encode(&b, img)
	}
	if err != nil {
		p.fail("%v", err)
	}
	p.write(name, b.String())
}

// decoded checks the layout of an answer with an image and returns it.
func (p *probe) decoded(what string, a answer) image.Config {
	if len(a.Content) != 2 || a.Content[0].Type != "text" || !a.Content[0].is("assistant") || a.Content[1].Type != "image" {
		p.fail("%s is not a text for the assistant and an image: %s", what, excerpt(a.words()))
	}
	b := a.Content[1]
	p.equal("the type of "+what, b.MimeType, "image/jpeg")
	if b.Annotations.Priority == nil || *b.Annotations.Priority != 0 {
		p.problem("the image of %s has no priority 0", what)
	}
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		p.fail("the data of %s: %v", what, err)
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || format != "jpeg" {
		p.fail("the data of %s is %s: %v", what, format, err)
	}
	return config
}

func checkImageLarge(p *probe) {
	p.writeImage("wide.png", picture(2048, 512))
	p.writeImage("tall.png", picture(300, 1200))
	a := p.ok("image_processor", args{"path": p.path("wide.png")})
	c := p.decoded("a wide image", a)
	p.equal("the text", a.Content[0].Text, "Successfully processed image from "+p.path("wide.png"))
	if c.Width != 1024 || c.Height != 256 {
		p.problem("2048×512 becomes %d×%d, want 1024×256", c.Width, c.Height)
	}
	c = p.decoded("a tall image", p.ok("image_processor", args{"path": p.path("tall.png")}))
	if c.Width != 256 || c.Height != 1024 {
		p.problem("300×1200 becomes %d×%d, want 256×1024", c.Width, c.Height)
	}
}

func checkImageFormats(p *probe) {
	for _, name := range []string{"a.png", "a.jpg", "a.gif"} {
		p.writeImage(name, picture(64, 48))
		if c := p.decoded(name, p.ok("image_processor", args{"path": p.path(name)})); c.Width != 64 || c.Height != 48 {
			p.problem("%s of 64×48 becomes %d×%d", name, c.Width, c.Height)
		}
	}
}

func checkImageErrors(p *probe) {
	p.refused("a missing image", p.call("image_processor", args{"path": p.path("missing.png")}), internalError, "File '"+p.path("missing.png")+"' does not exist")
	p.write("text.png", "no image at all")
	p.refused("a text", p.call("image_processor", args{"path": p.path("text.png")}), internalError, "Failed to open image file")
	p.write("huge.png", strings.Repeat("x", 11<<20))
	p.refused("11 MiB", p.call("image_processor", args{"path": p.path("huge.png")}), internalError, "is too large (11.00MB). Maximum size is 10MB.")
	p.refused("image_processor without a path", p.call("image_processor", args{}), invalidParams)
}

func checkWindows(p *probe) {
	a := p.call("list_windows", args{})
	if a.failed() {
		p.refused("list_windows", a, internalError, "Failed to list windows")
		return
	}
	assistant, _ := p.split("list_windows", a, 0)
	if !strings.HasPrefix(assistant, "Available windows:\n") {
		p.problem("the list begins with %s", excerpt(assistant))
	}
}

func checkScreen(p *probe) {
	if a := p.call("screen_capture", args{}); a.failed() {
		p.refused("screen_capture", a, internalError, "")
	} else {
		p.decoded("the screen", a)
		p.equal("the text", a.Content[0].Text, "Screenshot captured")
	}
	p.refused("screen_capture of a window that is not there", p.call("screen_capture", args{"window_title": "no such window 4711"}), internalError, "")
	p.refused("screen_capture of a display that is not there", p.call("screen_capture", args{"display": 99}), internalError, "")
	p.refused("screen_capture of an ill-typed display", p.call("screen_capture", args{"display": "main"}), invalidParams, "")
}
