// Package dashboard is the page of the control plane: watch, start and steer
// unattended runs from a browser. It is plain HTML, CSS and ES modules, embedded
// as they are; nothing is built, and the page asks no other host for anything.
//
// The page holds no secret: a person's token comes in the fragment of its
// address (#token=…), which browsers do not send, and goes out as a bearer token.
//
// Everything an agent or a repository wrote is hostile. The page makes text nodes
// of it and nothing else; it works under a Content-Security-Policy without inline
// script and style, without other origins, and, where the browser knows trusted
// types, without any way to make markup of a string.
package dashboard

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files are the page, index.html, and its parts, which it expects at /assets/.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is a constant, and valid
	}
	return files
}
