//go:build race

package shell_test

// raceEnabled: everything takes many times longer.
const raceEnabled = true
