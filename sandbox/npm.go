package sandbox

import "embed"

// NPM is the npm project that pins the agents: package.json, its lock file and
// npm's settings. Installing from it gives exactly the programs gander is
// tested with.
//
//go:embed package.json package-lock.json .npmrc
var NPM embed.FS
