// Package supervise is gander as the first process inside a sandbox, and the
// host's side of it. It is the same whatever the driver: a driver starts
// "gander supervise" somewhere, hands the process's stdin and stdout to [Dial],
// and has a sandbox. A program that wants to be its own supervisor calls [Main]
// before anything else when its first argument is [Verb].
//
// # Processes
//
// On Linux four kinds of process run, all of them this program, or one that is nothing else
// (cmd/supervisor):
//
//	S, the supervisor   answers the host, reaps, marks, kills, listens for the doors.
//	                    PID 1 of its PID namespace where there is one.
//	L, the launcher     started once by S, from a thread that gives up every privilege in
//	                    a list of stages first. It starts shepherds on request. What is
//	                    installed in a stage (a system call filter) covers all that runs
//	                    inside.
//	shepherds           one per running command, started by L, reused; the first one by S,
//	                    as L is. A shepherd is the reaper of last resort of its command's
//	                    descendants, so it knows them all however they escaped, and knows
//	                    when none is left.
//	commands            what the host asked for, and everything that starts.
//
// Each of the first three watches the socket to its owner and, when that closes,
// kills what is below it and exits: the death of any takes everything down, in a
// namespace or not. Elsewhere S starts commands itself, in a process group
// (macOS) or a job object (Windows).
//
// S believes nothing that L or a shepherd says beyond the fate of its own
// command: both run with the rights of the sandboxed processes.
//
// # Protocol
//
// The byte stream between host and S carries yamux; the host is its client. Each
// yamux stream begins with a header: a 16 bit big-endian length and that many
// bytes of JSON ([header]).
//
//	control   opened by the host, first. JSON messages, one per line, both ways:
//	          requests {id, method, params}, answers {id, result} or {id, error},
//	          and events of S {method, params}. The first request is "setup".
//	stdio     opened by the host, one per process: its stdin one way, its stdout
//	          the other. Closing a direction is end of file in that direction.
//	stderr    opened by the host, one per process.
//	door      opened by S for a connection to one of the doors. The host answers
//	          with a header of its own: empty, or with an error.
//
// "hold" keeps everything inside from renaming and linking, for a bounded time or
// until "release": the host follows a path meanwhile.
//
// Where S is a child of the host ([LocalConn]) there is a second socket, on which files
// go: the standard streams of a process are then pipes that the host has made, and S
// passes the other ends on to the command. They go out, with the number of the process,
// before its start is requested.
//
// The host numbers processes. It opens both streams of a process and requests
// "start" with that number; S answers with the process id, or an error and
// nothing was started. Events follow: "exit" when the command has ended,
// "stdinClosed" when nobody inside can read stdin any more, and "gone", the last
// one, when nothing of it is left. "signal", "kill", "end" and "members" name a
// process by number, "mark" and "killSince" are about all of them.
//
// Windows are per stream, so a stream that nobody reads holds up its own process
// and nothing else, and memory is bounded by the number of streams. There is no
// keep-alive: a machine may sleep. When the stream ends S kills everything and exits.
//
// S serves a connection with a set of rights, and the numbers of processes belong to the
// connection; the host's has all rights.
package supervise
