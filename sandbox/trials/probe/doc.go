// Package probe is a catalogue of attempts to get out of a sandbox, and the
// running of it. [Catalogue] is data: adding an attempt is adding a row to the
// table of its class. [Run] makes a project of its own with closed files, some bait
// around it and helpers on the host's side, and carries each attempt out twice:
// outside, over a plain shell, where it must succeed, and inside.
//
// An attempt is a shell script, or the name of one that is built into gander's own
// program ([Main]), so that nothing but a shell is needed in a sandbox. It has got
// through when the secret of the run, or the mark of the attempt, is in what it
// prints, when a closed file has changed, when a listener outside was told
// something, or when a process outlives its killing. Nothing is taken for blocked
// that could not be tried, and an attempt that fails outside proves nothing.
//
// What it does not try: to exhaust the machine, and kernel bugs.
package probe

// A Case is an attempt.
type Case struct {
	// ID is its class and its name, "files/by a hard link".
	ID string
	// Sh is a script for a shell in the case's own directory; Do is the name of an
	// attempt of Main instead. Both find what they need in the environment or in
	// [Facts]: OUT is a writable directory beside the project, BESIDE one that the
	// sandbox does not show, VICTIM a process outside. They print $1, the mark, when they
	// have done what they should not have been able to do.
	Sh, Do string
	// Needs are programs, or absolute paths of the machine, without which the case
	// cannot run.
	Needs []string
	// Root says that it succeeds outside for root only.
	Root bool
	// Namespaced attempts change the system: outside they are tried in namespaces of
	// their own, which an ordinary user may not be able to make.
	Namespaced bool
	// Stays says that outside it succeeds by leaving a process behind.
	Stays bool
	// Host names what the host does to the case's directory meanwhile, see hostActs.
	Host string
}

// The classes of cases.
const (
	Files       = "files"       // reading what rules close
	Writes      = "writes"      // changing it
	Git         = "git"         // having git read or change it
	Written     = "written"     // writing what the person's git obeys
	Committed   = "committed"   // reading what git keeps of closed files
	Machine     = "machine"     // files of the machine that are not the project's
	Everyday    = "everyday"    // what stands beside toolchains, caches, devices and the password file
	Proc        = "proc"        // /proc and /sys
	Kernel      = "kernel"      // namespaces, mounts, capabilities, calls
	Processes   = "processes"   // other processes, and staying alive
	Network     = "network"     // packets and sockets
	Environment = "environment" // variables, descriptors
	Races       = "races"       // with the host, and with the supervisor's own look
	Protocol    = "protocol"    // the supervisor's stream
)

// Catalogue is every case, by class.
func Catalogue() []Case {
	var all []Case
	for _, class := range []struct {
		name  string
		cases []Case
	}{
		{Files, fileCases()},
		{Writes, writeCases()},
		{Git, gitCases()},
		{Written, writtenCases()},
		{Committed, committedCases()},
		{Machine, machineCases()},
		{Everyday, everydayCases()},
		{Proc, procCases()},
		{Kernel, kernelCases()},
		{Processes, processCases()},
		{Network, networkCases()},
		{Environment, environmentCases()},
		{Races, raceCases()},
		{Protocol, protocolCases()},
	} {
		for _, c := range class.cases {
			c.ID = class.name + "/" + c.ID
			all = append(all, c)
		}
	}
	return all
}

// sh is a case that is a script, do one of Main's.
func sh(id, script string, needs ...string) Case { return Case{ID: id, Sh: script, Needs: needs} }
func do(id, name string) Case                    { return Case{ID: id, Do: name} }

// rooted is a case that takes root outside, namespaced one that takes namespaces.
func rooted(c Case) Case     { c.Root = true; return c }
func namespaced(c Case) Case { c.Namespaced = true; return c }
