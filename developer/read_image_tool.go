package developer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/image/webp"

	"gander.dev/gander/developer/editor"
	"gander.dev/gander/developer/files"
)

const readImageSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ImageReadParams",
  "type": "object",
  "properties": {
    "source": {"description": "Local file path or http(s) URL of the image to load.", "type": "string"},
    "crop": {"description": "Optional crop rectangle in pixels. Coordinates are measured from the top-left corner.\nuse to zoom in and get more details.", "default": null, "anyOf": [{"$ref": "#/$defs/CropParams"}, {"type": "null"}]}
  },
  "required": ["source"],
  "$defs": {
    "CropParams": {
      "type": "object",
      "properties": {
        "x": {"description": "Left edge of the crop rectangle in pixels.", "type": "integer", "format": "uint32", "minimum": 0},
        "y": {"description": "Top edge of the crop rectangle in pixels.", "type": "integer", "format": "uint32", "minimum": 0},
        "width": {"description": "Width of the crop rectangle in pixels.", "type": "integer", "format": "uint32", "minimum": 0},
        "height": {"description": "Height of the crop rectangle in pixels.", "type": "integer", "format": "uint32", "minimum": 0}
      },
      "required": ["x", "y", "width", "height"]
    }
  }
}`

// The limits of read_image.
const (
	maxReadImageBytes  = 20 << 20
	maxReadImagePixels = 50_000_000 // of an image that is decoded to cut a part out
	readImageTimeout   = 30 * time.Second
)

// readImageTool is the read_image of goose 1.52: the image as it is, or a part of
// it as PNG.
func readImageTool(s *Spaces) Tool {
	in := imageTurns{downloads: make(turns, 4), pictures: make(turns, 1)}
	return Tool{
		Name:        "read_image",
		Title:       "Read Image",
		Description: "Read an image from a local file path or http(s) URL and return it as image content for the model to inspect. Supports png, jpeg, gif, and webp.",
		InputSchema: json.RawMessage(readImageSchema),
		Hints:       &Hints{OpenWorld: true},
		Call: func(ctx context.Context, call Call) (Result, error) {
			var source *string
			if err := currentArguments(call, "source", &source); err != nil {
				return currentAnswer("", err), nil
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return currentAnswer("", err), nil
			}
			result, err := in.readImage(ctx, space, call, *source)
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			if err != nil {
				return currentAnswer("", currentError("Error: %v", err)), nil
			}
			return result, nil
		},
	}
}

// An imageCrop is a part of an image, in pixels.
type imageCrop struct {
	X      uint32 `json:"x"`
	Y      uint32 `json:"y"`
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

// imageTurns bound what is in memory at a time. A picture that comes is not in the way of
// one that is there.
type imageTurns struct{ downloads, pictures turns }

func (in imageTurns) readImage(ctx context.Context, space *files.Space, call Call, source string) (Result, error) {
	members, err := argumentMembers(call.Arguments)
	if err != nil {
		return Result{}, err
	}
	var crop *imageCrop
	if err := argument(members, "crop", &crop); err != nil {
		return Result{}, currentError("Failed to parse arguments: %v", err)
	}
	if strings.TrimSpace(source) == "" {
		return Result{}, errors.New("source cannot be empty")
	}
	u, _ := url.Parse(source) // a path need not be one
	var data []byte
	if u != nil && (u.Scheme == "http" || u.Scheme == "https") {
		leave, err := in.downloads.enter(ctx)
		if err != nil {
			return Result{}, err
		}
		defer leave()
		if data, err = download(ctx, u); err != nil {
			return Result{}, err
		}
	}
	leave, err := in.pictures.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	if data == nil {
		if data, err = imageFile(space, source); err != nil {
			return Result{}, err
		}
	}
	kind, ok := imageKindOf(data)
	if !ok {
		return Result{}, errors.New("unsupported image format; supported formats are png, jpeg, gif, and webp")
	}
	size, err := kind.config(bytes.NewReader(data))
	if err != nil {
		return Result{}, fmt.Errorf("failed to decode image: %w", err)
	}
	shown, mime, note := size, kind.mime, ""
	if crop != nil {
		if data, err = kind.crop(data, size, *crop); err != nil {
			return Result{}, err
		}
		shown.Width, shown.Height, mime = int(crop.Width), int(crop.Height), "image/png"
		note = fmt.Sprintf(" Cropped from %dx%d to %dx%d.", size.Width, size.Height, crop.Width, crop.Height)
	}
	text := fmt.Sprintf("Loaded image from %s (%d bytes, %s, %dx%d).%s", source, len(data), mime, shown.Width, shown.Height, note)
	structured, err := json.Marshal(map[string]any{
		"source": source, "mimeType": mime, "width": shown.Width, "height": shown.Height, "bytes": len(data),
		"originalWidth": size.Width, "originalHeight": size.Height, "crop": crop,
	})
	return Result{
		Content:    []Content{{Text: text, Priority: new(0.0)}, {Data: data, MimeType: mime, Priority: new(0.0)}},
		Structured: structured,
	}, err
}

// imageFile reads the image that a path names, or u where it is the URL of a file.
func imageFile(space *files.Space, name string) ([]byte, error) {
	data, _, err := space.ReadFile(name, maxReadImageBytes)
	if errors.Is(err, files.ErrURL) {
		return nil, errors.New("invalid file URL")
	}
	if large, ok := errors.AsType[*files.TooLargeError](err); ok {
		return nil, imageTooLarge(large.Size)
	}
	if info, statErr := space.Stat(name); err != nil && statErr == nil && info.IsDir() {
		return nil, errors.New("failed to read image file: Is a directory (os error 21)")
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read image file: %s", editor.Reason(err))
	}
	return data, nil
}

func imageTooLarge(n int64) error {
	return fmt.Errorf("image is too large: %d bytes exceeds %d byte limit", n, maxReadImageBytes)
}

func download(ctx context.Context, u *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readImageTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("failed to download image: %w", err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if failure, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("failed to download image: error sending request for url (%s): %w", u.Redacted(), failure.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to download image: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		return nil, fmt.Errorf("failed to download image: the server answered %s", response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxReadImageBytes+1))
	if err != nil {
		return nil, fmt.Errorf("failed to read image response: %w", err)
	}
	if len(data) > maxReadImageBytes {
		return nil, imageTooLarge(max(int64(len(data)), response.ContentLength))
	}
	return data, nil
}

// An imageKind is a format that can be read.
type imageKind struct {
	mime   string
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// imageKindOf tells the format by the first bytes, whatever the name says.
func imageKindOf(data []byte) (imageKind, bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return imageKind{"image/png", png.DecodeConfig, png.Decode}, true
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return imageKind{"image/jpeg", jpeg.DecodeConfig, jpeg.Decode}, true
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return imageKind{"image/gif", gif.DecodeConfig, gif.Decode}, true
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return imageKind{"image/webp", webp.DecodeConfig, webp.Decode}, true
	}
	return imageKind{}, false
}

// crop cuts a part out and makes a PNG of it.
func (k imageKind) crop(data []byte, size image.Config, c imageCrop) ([]byte, error) {
	switch {
	case c.Width == 0 || c.Height == 0:
		return nil, errors.New("crop width and height must be greater than zero")
	case int64(c.X)+int64(c.Width) > int64(size.Width), int64(c.Y)+int64(c.Height) > int64(size.Height):
		return nil, fmt.Errorf("crop rectangle %dx%d at %d,%d exceeds image bounds %dx%d", c.Width, c.Height, c.X, c.Y, size.Width, size.Height)
	case int64(size.Width)*int64(size.Height) > maxReadImagePixels:
		return nil, fmt.Errorf("image is too large to crop: %dx%d exceeds %d pixels", size.Width, size.Height, maxReadImagePixels)
	}
	whole, err := k.decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("failed to decode image: %w", err)
	}
	part := image.NewNRGBA(image.Rect(0, 0, int(c.Width), int(c.Height)))
	draw.Draw(part, part.Bounds(), whole, whole.Bounds().Min.Add(image.Pt(int(c.X), int(c.Y))), draw.Src)
	var out bytes.Buffer
	if err := png.Encode(&out, part); err != nil {
		return nil, fmt.Errorf("failed to encode cropped image: %w", err)
	}
	if out.Len() > maxReadImageBytes {
		return nil, imageTooLarge(int64(out.Len()))
	}
	return out.Bytes(), nil
}
