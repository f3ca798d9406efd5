// Package mcp judges a developer server from outside: it starts any command
// that speaks MCP on stdio, writes raw JSON-RPC lines, and holds what comes back,
// on stdout, on disk and among the processes, against the requirements of goose's
// developer extension.
//
// [Checks] is the list of what is checked, each with the requirement behind it
// ([Requirements]); [Run] checks a command and returns a [Report]. A check that
// does not apply to what the server offers is reported as such with the reason,
// never as passed.
//
// The harness trusts nothing it starts: every wait has an end, and what a server
// leaves behind is killed. On Linux it looks for leftovers in /proc by marks in
// environments and arguments, which works through containers and sandboxes too;
// elsewhere those checks do not apply. A Windows server may be driven from Linux
// through wine ([Options.Platform]).
//
// It imports nothing of gander's. The servers of its own tests, a good one and
// its broken twins, are in the test files.
package mcp
