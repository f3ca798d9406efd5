package sandbox

import _ "embed"

// Bootstrap says to an agent of an unattended loop who it is. The images have it as
// /state/BOOTSTRAP.md.
//
//go:embed BOOTSTRAP.md
var Bootstrap string
