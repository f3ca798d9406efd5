// Package clients knows the programs that can use gander, and puts gander's entry
// into their configuration files and takes it out again.
//
// [Targets] are the programs. [Target.Document] is a document with nothing but the
// entry, to be printed; [Target.Put] and [Target.Take] work on the text of a file
// that is there, and [Edit] on the file itself. What they do not understand they
// do not touch: comments, order and layout stay, and before an edited text is
// handed out it is read again and compared with what it should mean. A file that
// cannot be read this way is refused.
package clients
