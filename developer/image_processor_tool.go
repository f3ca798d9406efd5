package developer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"regexp"

	"gander.dev/gander/developer/files"
)

const imageProcessorDescription = "Process an image file from disk. Resizes if needed, converts to JPEG, and returns as base64 data."

const imageProcessorSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "ImageProcessorParams",
  "type": "object",
  "properties": {
    "path": {"description": "Absolute path to the image file to process", "type": "string"}
  },
  "required": ["path"]
}`

// imageProcessorTool is classic goose's image_processor.
func imageProcessorTool(s *Spaces) Tool {
	pictures := make(turns, 1)
	return Tool{
		Name:        "image_processor",
		Description: imageProcessorDescription,
		InputSchema: json.RawMessage(imageProcessorSchema),
		Call: func(ctx context.Context, call Call) (Result, error) {
			members, err := argumentMembers(call.Arguments)
			var name *string
			if err = errors.Join(err, argument(members, "path", &name)); err == nil && name == nil {
				err = errors.New("missing field `path`")
			}
			if err != nil {
				return Result{}, &Error{InvalidParams, "failed to deserialize parameters: " + err.Error()}
			}
			space, err := s.For(call.WorkingDir)
			if err != nil {
				return Result{}, err
			}
			leave, err := pictures.enter(ctx)
			if err != nil {
				return Result{}, err
			}
			defer leave()
			path, data, err := readPicture(space, *name)
			if err != nil {
				return Result{}, &Error{InternalError, err.Error()}
			}
			picture, err := decodePicture(data)
			if err != nil {
				return Result{}, &Error{InternalError, fmt.Sprintf("Failed to open image file: %v", err)}
			}
			return pictureResult("Successfully processed image from "+path, picture, orientationOf(data))
		},
	}
}

// pictureResult is how the classic tools answer with a picture.
func pictureResult(text string, picture image.Image, o orientation) (Result, error) {
	data, err := jpegForModel(picture, o)
	if err != nil {
		return Result{}, &Error{InternalError, "writing the picture as JPEG: " + err.Error()}
	}
	return Result{Content: []Content{
		{Text: text, Audience: []string{"assistant"}},
		{Data: data, MimeType: "image/jpeg", Priority: new(float64)},
	}}, nil
}

// readPicture reads the file, or the one that macOS gave nearly that name.
func readPicture(space *files.Space, name string) (path string, data []byte, err error) {
	path = space.Abs(name)
	if err := space.Check(name); err != nil {
		return path, nil, err
	}
	data, err = readPictureFile(space, path)
	if other := screenshotName(path); other != path && errors.Is(err, fs.ErrNotExist) {
		if data, otherErr := readPictureFile(space, other); otherErr == nil {
			return other, data, nil
		}
	}
	return path, data, err
}

func readPictureFile(space *files.Space, path string) ([]byte, error) {
	data, _, err := space.ReadFile(path, pictureBytes)
	if large, ok := errors.AsType[*files.TooLargeError](err); ok {
		return nil, &pictureError{fmt.Sprintf("File '%s' is too large (%.2fMB). Maximum size is %dMB.", path, float64(large.Size)/(1<<20), pictureBytes>>20), err}
	}
	_, restricted := errors.AsType[*files.RestrictedError](err)
	_, outside := errors.AsType[*files.OutsideError](err)
	switch {
	case err == nil, restricted, outside:
		return data, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, &pictureError{fmt.Sprintf("File '%s' does not exist", path), err}
	}
	return nil, &pictureError{fmt.Sprintf("Failed to open image file: %v", err), err}
}

// An pictureError says in classic goose's words what is wrong with a file.
type pictureError struct {
	message string
	err     error
}

func (e *pictureError) Error() string { return e.message }

// Unwrap is the reason.
func (e *pictureError) Unwrap() error { return e.err }

// screenshotName puts the narrow space before AM and PM that macOS has in the names
// of its screenshots, and that nobody types.
func screenshotName(path string) string {
	typed := regexp.MustCompile(`(Screenshot \d{4}-\d{2}-\d{2} at \d{1,2}\.\d{2}\.\d{2}) ((?:AM|PM|am|pm)(?: \(\d+\))?\.png)$`)
	return typed.ReplaceAllString(path, "${1}\u202f${2}")
}
