//go:build embedded

package local

import _ "embed"

// embedded is the program of directory supervisor, as make build and cmd/dist build it.
//
//go:embed supervisor/program
var embedded []byte
