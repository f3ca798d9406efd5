// Package acp speaks the Agent Client Protocol, version 1, in both roles: as an
// agent towards an editor, and as a client of other agents. It is only the
// wire: it knows nothing of sandboxes, transcripts or programs.
//
// An agent implements [Agent] and calls [ServeAgent]; what it wants of the
// editor it asks the [ClientConn] it was made with. A client implements
// [Client], calls [DialAgent] and uses the [AgentConn].
//
// # Order and concurrency
//
// Whatever is sent leaves in the order it was handed over: a response never
// overtakes the updates before it. Requests of one session start in arrival
// order, the next one when the former has returned or called [Release];
// sessions run side by side. Updates reach a Client one at a time, in wire
// order, and before any response that follows them. All exported methods are
// safe for concurrent use, and everything the package starts has ended when
// ServeAgent or AgentConn.Close returns.
//
// # Bad input
//
// Any line gets a JSON-RPC error or is ignored, as the protocol says, and the
// connection lives on. Ids are opaque: whatever JSON scalar a peer chose comes
// back byte for byte. Optional fields of the wrong type count as absent.
//
// # Memory
//
// Inbound lines are limited by [Options].MaxLine. Outbound, updates wait while
// more than 1 MiB is unwritten, so a slow reader holds back whoever produces
// them, and nothing else: responses, requests and cancellation never wait.
// Replies that nobody waits for (parse errors) are dropped beyond that 1 MiB. A
// peer that lets 64 MiB of replies pile up is disconnected.
//
// # Transparency
//
// Updates are carried as raw JSON, so unknown kinds, unknown fields and _meta
// pass through. Only what a peer could not read is changed: broken UTF-8 and
// lone surrogates become U+FFFD, frames over [Options].MaxFrame are split or
// cut with a sentence that says so, and kinds that the client did not advertise
// are held back.
package acp
