// Package ignore decides which files of a project are hidden: what .gooseignore
// files say, with git's meaning of every line, in one place for every tool and
// for the kernel layer of the sandboxes.
//
// A [Matcher] is compiled rules. It is immutable, safe for concurrent use, and
// fast enough to be asked at every open. A [Set] belongs to a directory: it finds
// the rules that hold there, makes a Matcher of them, and follows their changes.
//
// # Which rules hold
//
// First the person's own file, then the .gooseignore in the root, then those in
// the directories on the way to the file; of all lines that match, the last one
// decides, and "!" brings back. When neither of the first two exists, a few
// built-in lines hide environment files and secrets ([Defaults]); an empty file
// switches them off. What is in a hidden directory is hidden, whatever later
// lines say. Nothing here ever creates a rules file.
//
// # How lines are matched
//
// Plain names, paths, prefixes ("key*") and suffixes ("*.pem") are compared as
// strings. Everything else is matched by github.com/sabhiram/go-gitignore, after
// the line was parsed as git parses it and rewritten so that the library cannot
// misread it. A fuzz test compares with git check-ignore. Where this package
// hides more than git is listed above compileLine in lines.go.
//
// # What cannot be decided
//
// A rules file that cannot be read (too large, not a regular file, no permission,
// not text) leaves the rules that held before. When there were none, everything
// in its directory is hidden until it is mended: broken rules never mean no rules.
// A path that takes too long to compare with the rules is hidden, too (work.go).
package ignore

// Defaults are the rules where there is no rules file, as in classic goose. Templates, which
// people commit, are open.
const Defaults = "**/.env\n**/.env.*\n**/secrets.*\n" + "!**/*.example\n!**/*.sample\n!**/*.template\n!**/*.dist\n"

// FileName is what a rules file is called, in whatever directory.
const FileName = ".gooseignore"

// A Source is a rules file's content.
type Source struct {
	// File names it in explanations.
	File string
	// Dir is the directory that its lines are relative to, slash-separated from the
	// root of the Matcher; empty for the root itself.
	Dir string
	// Text is its content.
	Text string
	// Everywhere says that its lines hold outside of the root, too, with all that
	// is in a directory they match: the person's own file, and the built-in rules.
	Everywhere bool
}

// Options say what the file system takes for the same name.
type Options struct {
	// FoldCase compares names without case; as on macOS and Windows.
	FoldCase bool
	// WindowsNames leaves out what Windows leaves out of names: streams, and dots
	// and spaces at the end.
	WindowsNames bool

	wide bool // case is folded in all scripts
}
