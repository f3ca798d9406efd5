//go:build !unix && !windows

package screen

import (
	"context"
	"errors"
	"image"
)

var errPlatform = errors.New("the screen cannot be seen on this system")

func (s *Screen) windows(context.Context) ([]string, error) { return nil, errPlatform }

func (s *Screen) captureWindow(context.Context, string) (image.Image, error) { return nil, errPlatform }

func (s *Screen) captureDisplay(context.Context, uint64) (image.Image, error) {
	return nil, errPlatform
}
