// Package harness is what the black-box checks of this repository share: a
// program that is driven over its stdin and stdout with raw JSON-RPC lines
// ([Peer]), the search for what it leaves behind ([Marked]), and the report of
// what was found ([Report]).
//
// It knows no protocol beyond JSON-RPC 2.0 and imports nothing of gander's. It
// trusts nothing it starts: writes and waits have an end, what is kept of a
// program's words is bounded, and what it leaves can be killed by its mark. On
// Linux processes are found in /proc, through containers and sandboxes too;
// elsewhere [CanSeeProcesses] is false and the functions find nothing.
package harness
