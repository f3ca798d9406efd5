// Package sessions keeps conversations on disk, one append-only file per
// session: <dir>/<id>.jsonl, one JSON record per line.
//
// A session is made with [Store.Create] and continued with [Store.Resume]; both
// return a [Transcript] to append to. [Store.Entries] reads the records back,
// [Store.Replay] turns them into the updates that show a client the thread again,
// [Store.History] into a plain conversation for an agent that has lost its own.
// [Store.List] and [Store.Info] say what sessions there are, [Store.Fork],
// [Store.SetTitle] and [Store.Delete] work on one that need not be open.
//
// # Names
//
// A session's id is the one of ACP, and for ever that of one conversation in one
// directory ([Info.CheckDir]). A key is a name that a command line or a loop goes
// on with ([Store.Prepare]); it gets a new session when the old one belongs to
// another directory, is old ([Reset]) or a new one is asked for.
//
// # Durability
//
// [Transcript.Append] orders a record and returns; one goroutine per transcript
// writes what was appended in batches, at the latest a few milliseconds later.
// A record is safe from a crash of this process once written and from a power
// loss once [Transcript.Sync] or [Transcript.Commit] has returned, unless
// [Options].Sync says that less will do; many that wait share one flush. Files are only ever appended to, so
// a crash can at worst leave the beginning of a record behind the last complete
// one; readers leave such a torn tail out, and the next batch begins a new line.
// What is summed up of each transcript is kept in the file index, for lists: a
// cache that may be lost, stale or wrong, and is never the truth.
//
// # Format
//
// Each line is an object with a "type", and except for the header with a
// "timestamp" in milliseconds since 1970. The types session, message and
// compaction have the shapes that other tools write too; the remaining ones and
// the fields "id" and "turnId" are additions. Records of a type this
// version does not know are kept as they are. Raw JSON inside a record is stored
// byte for byte, apart from white space between tokens.
//
// # Concurrency
//
// All methods may be called concurrently. Several processes may share a
// directory, and even append to one session: batches are whole lines, written
// under a lock of the file, and do not mix. One who runs a session takes
// [Store.Claim] first, so that nobody else does. Locks end with their process.
package sessions
