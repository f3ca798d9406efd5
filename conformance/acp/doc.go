// Package acp judges an ACP agent from outside: it starts any command that
// speaks the Agent Client Protocol, version 1, on stdio, plays an editor with raw
// JSON-RPC lines, plays the language model behind the agent with a script, and
// holds what comes back, on stdout, on disk, at the model and among the
// processes, against the protocol.
//
// [Checks] is the list of what is checked, each with the section of the
// specification behind it ([Requirements]); [Run] checks a command and returns a
// report. What an agent does not advertise, or cannot be made to do, is not
// applicable with the reason, and never passes. Every frame of the whole run is
// held against the shapes of the protocol (shapes.go); the last checks tell what
// was found there.
//
// # The model
//
// Turns need a language model. The harness starts conformance/model on loopback
// and puts into the agent's environment the variables by which gander, goose and
// opencode find it; [Options.Env] adds those of others. A prompt carries the
// script that the model follows, so the agent's own tools run real commands. The
// agent gets a home of its own, so nothing of the person's is seen or changed.
//
// The harness trusts nothing it starts: every wait has an end, and what an agent
// leaves behind is killed. It imports nothing of gander's. The agents of its own
// tests, a good one and its broken twins, are in the test files.
package acp
