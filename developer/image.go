package developer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // the formats that are understood
	"image/jpeg"
	_ "image/png"

	_ "golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

const (
	// pictureBytes is the largest file that is read, picturePixels the largest picture
	// that is decoded: a small file may claim to be of any size.
	pictureBytes  = 10 << 20
	picturePixels = 50_000_000
	// pictureSide is the longer side of what a model gets, pictureQuality that of its JPEG.
	pictureSide    = 1024
	pictureQuality = 85
)

// turns lets in so many callers at a time as it has room for: a picture takes up to 400 MB
// while it is decoded.
type turns chan struct{}

// enter waits for its turn, until ctx ends. Who was let in leaves.
func (t turns) enter(ctx context.Context) (leave func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// decodePicture reads a png, jpeg, gif (its first picture), webp, tiff or bmp.
func decodePicture(data []byte) (image.Image, error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case errors.Is(err, image.ErrFormat):
		return nil, errors.New("the format is not known; png, jpeg, gif, webp, tiff and bmp are")
	case err != nil:
		return nil, err
	case config.Width <= 0 || config.Height <= 0 || config.Width > picturePixels/config.Height:
		return nil, fmt.Errorf("the picture has %d x %d pixels, at most %d million can be read; make it smaller", config.Width, config.Height, picturePixels/1_000_000)
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	return picture, err
}

// jpegForModel makes of a picture what a model gets: at most pictureSide pixels wide
// and high, on white where it is transparent, upright.
func jpegForModel(picture image.Image, o orientation) ([]byte, error) {
	size := picture.Bounds().Size()
	if longer := max(size.X, size.Y); longer > pictureSide {
		size.X, size.Y = max(1, size.X*pictureSide/longer), max(1, size.Y*pictureSide/longer)
	}
	small := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(small, small.Rect, image.NewUniform(color.White), image.Point{}, draw.Src)
	if size == picture.Bounds().Size() {
		draw.Draw(small, small.Rect, picture, picture.Bounds().Min, draw.Over)
	} else {
		draw.CatmullRom.Scale(small, small.Rect, picture, picture.Bounds(), draw.Over, nil)
	}
	var out bytes.Buffer
	err := jpeg.Encode(&out, o.upright(small), &jpeg.Options{Quality: pictureQuality})
	return out.Bytes(), err
}
