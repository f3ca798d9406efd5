// Package changes finds out what a turn did to a project's files, keeps what they
// were, and puts it back.
//
// [Open] gives the [Tree] of a project. Call [Tree.Begin] before a turn and
// [Tree.End] after it: End says which files are different, keeps a [Turn] on disk,
// and [Tree.Diff] and [Tree.Undo] work with that, in this process or a later one.
//
// # How it is compared
//
// By gander's own reader, on the host, never by git: what git would do in a hostile
// repository is up to the repository. A look at the tree is two passes. The first
// lists every directory and asks for every file's identity, size and times. The
// second reads the files that are new or whose answer differs from the last time,
// and compares SHA-256 sums of content. The change time is part of the answer; no
// program without privileges can set it, so a forged modification time hides
// nothing. A file that changed just before it was read is read again at the next
// look: another change within the clock's step would not show.
//
// Everything counts, whatever git thinks of it: ignored files, commits, checkouts,
// files that were dirty before, names in no known encoding, modes, links. Of a
// repository's own directory only what git runs or obeys is looked at: config,
// hooks, info. Files that the ignore rules close are neither read nor named, also
// not under the other name of a hard link.
//
// # What the tree cannot do to the host
//
// Links are never followed, not on the way either. Pipes, sockets and devices are
// not opened. Depth, number of entries, sizes and time are bounded; what a bound
// left out is in [Result.NotCompared]. A file that is written while it is read
// gives a sum that matches nothing later, and no more.
//
// # What is kept
//
// Content of files up to [Options.MaxFile] is kept, compressed and once, in one file
// for a project outside of it; directories of dependencies and caches
// ([Options] has no say in it) are compared by identity and times only, and named as a whole.
//
// # Limits
//
// Who changed a file is not known: what the person saves while a turn runs counts
// as the turn's. A program that keeps a page of a file mapped and dirty can change
// that page without the change time moving, until the kernel writes it back.
//
// A Tree is safe for concurrent use; several processes may have one for the same project.
package changes
