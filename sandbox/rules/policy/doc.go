// Package policy is what a sandbox may do, as data: the section "policy" of the
// configuration, how the person's and the project's are put together, which files
// of a project are protected from being written, and which projects are trusted.
//
// It decides and explains; it enforces nothing. Package enforce keeps the files,
// package gateway the network and the model, package supervise the limits.
//
// # Two layers
//
// The person's layer grants. The project's layer comes with a repository that
// somebody else wrote, and that the agent can read: until the person has trusted
// exactly that content ([TrustStore]) it may only tighten, and what it asks for
// beyond that is a [Request] that is shown and not granted. [Merge] says how.
package policy
