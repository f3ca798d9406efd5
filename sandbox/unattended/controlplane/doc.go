// Package controlplane is where unattended runs are watched and steered: an HTTP
// interface for browsers, terminals and editors, a database of what the runs told, and
// the live streams of it.
//
// [New] opens the database below Options.Dir; [Plane.Handler] answers requests,
// [Plane.Adopt] takes up the runs of an earlier process, [Plane.Close] ends the rest.
// Everything is safe for concurrent use. The package starts no sandbox: a [Fleet] does.
//
// # Who may what
//
// A person shows Options.Token and may do everything. The keeper of a run shows the
// token that Start gave it, of which a hash is kept here: it may send that run's
// telemetry and read its prompt and mailbox, nothing else. The routes are one table
// (routes.go), and the test of who may call what is made from it.
//
// # What happened, in order
//
// The events of a run are numbered by its keeper. They are taken in that order and once,
// so a batch can be sent again at any time. Beside that every event has an id, which
// increases over all runs: a live client that comes back names the last it has, by
// either number, and gets what follows without a gap and without doubles.
//
// The routes, status values and times of the succeeded system are kept beside the new
// ones, so that its loops and dashboards go on working (Options.Compat).
package controlplane
