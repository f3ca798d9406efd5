package sandbox

import "embed"

// Images is the build context of the agents' container images as far as it is
// source: a Dockerfile per agent and what they share. Package docker adds the
// rest and builds.
//
//go:embed BOOTSTRAP.md .dockerignore */Dockerfile */agent-loop.sh opencode/opencode.json
var Images embed.FS
