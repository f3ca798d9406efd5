// Package confine puts a sandbox under a policy: which files its rules close, what its git
// sees, what may leave it and how much.
//
// # Use
//
// Make [Ways] once for a process ([NewWays]): they hold what sessions have spent and what was
// allowed in them. For each sandbox call [Open], before anything of an agent's runs
// [Place.Check], each time, and in the end [Place.Close].
//
// Open reads the policy, begins to look at the closed files ([Leaks]), opens the model and the
// egress, makes the sandbox, and examines what its git keeps of closed files ([Examination]).
// When one of these fails it closes what it has opened. Check repeats the examination for what
// has come since, and waits for the first look at the closed files. Close ends the sandbox,
// removes git's object stores, and closes the model and the egress.
//
// # Concurrency
//
// Ways and Leaks may be used concurrently. A Place's fields do not change after Open; Check
// is for one goroutine at a time, and nothing may call it after Close. A [Stream] is for one
// goroutine.
package confine
