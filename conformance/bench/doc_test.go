// Package bench measures what gander costs: bin/gander beside what its users had
// before, both sides in one run and in turns, so that whatever else the machine
// does is shared. It prints medians with their spread, each beside its goal, and
// says met or MISSED. A missed goal is shown and does not fail the run; some rows also have
// a limit, up to three times their goal, and fail it when they are beyond that twice.
//
// The real goose or opencode is on the other side wherever there is one. Only the
// throughput rows have a stand-in agent (flood_linux_test.go), because no real
// agent is fast enough to be in the way.
//
// make bench runs everything in under five minutes. Without GANDER_BENCH=1 projects are
// smaller and most pairs are measured twice, which proves that the measurements work and
// nothing else; those with a limit are measured until that says something.
// GANDER_BENCH_CMD names another gander than bin/gander, to compare two builds.
package bench
