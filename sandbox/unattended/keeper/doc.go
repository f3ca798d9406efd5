// Package keeper is the host process of one unattended run: it makes the run's
// sandbox, holds what must not be inside, and makes the sandbox again when it dies.
//
// A keeper ([Run]) holds the ways out of the sandbox (the model's gateway with the
// key, the door to the hosts of the policy, the door to the control plane with the
// run's token), starts the loop inside (package loop), numbers its events, writes
// them to the run's spool and sends them to the control plane. The sandbox dies with
// it; the control plane may come and go.
//
// # A run's directory
//
// Who starts a run writes run.json, what the run is to be and whether it is to run
// ([Dir.Write], [Dir.SetDesired]), and the token. The keeper holds keeper.lock as
// long as it lives, answers on keeper.sock ([Client]), and writes the spool, what the
// next loop is to know (state/loop.json) and its own journal (state/keeper.json).
//
// # What is asked of a run
//
// Whatever is asked for is kept before it is answered. A loop starts with all that was asked
// for until then, and is told what is asked for later. A message is given to every loop
// until one counts it as heard.
//
// # What is exactly once
//
// Events are numbered here, from 1, without gaps, by the one process that holds the
// lock. An iteration that was cut short, because the loop, the sandbox, the keeper or
// the machine has died, is ended by one iteration_end with the outcome "interrupted",
// by this keeper or the next. What is sent twice has the same number.
//
// # Who is believed
//
// The loop's lines are read as what a sandbox says: sizes are capped again, the
// number, the run and the agent are the keeper's, and what looks like content of
// closed files does not leave where the policy says so. The control socket is for
// processes of the same user.
package keeper
