//go:build embedded

package local

import _ "embed"

// embedded is cmd/supervisor, as make build and cmd/dist build it.
//
//go:embed program
var embedded []byte
