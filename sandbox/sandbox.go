// Package sandbox holds the nouns of running an agent apart from the machine:
// what a Driver makes, what a Sandbox can do, what an Agent is. It starts
// nothing; drivers (sandbox/drivers/local), the supervisor (sandbox/inside/supervise) and
// agents (sandbox/goose) are the packages below it.
//
// The words: a driver is only how a supervisor gets started and how the project
// gets in. The supervisor is gander as the first process inside; it starts,
// signals, marks and kills processes and forwards the sandbox's doors, whatever
// the driver. Everything in a sandbox ends when its host side goes away.
package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/policy"
)

// ErrGone is returned by operations on a sandbox whose supervisor has ended.
var ErrGone = errors.New("the sandbox has ended")

// A Driver makes sandboxes. Methods are safe for concurrent use.
type Driver interface {
	// Name is the word for --sandbox: "local", "docker", "off".
	Name() string
	// Check says, cheaply and without starting anything, why this driver cannot
	// work here; nil when it should.
	Check(ctx context.Context) error
	// Create makes a sandbox and returns when commands can be started in it.
	// ctx bounds the creation only.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
}

// Off is the name of the driver that supervises without isolating. It is taken only when
// asked for.
const Off = "off"

// Spec is what a sandbox is made of.
type Spec struct {
	// ID names the sandbox; it is unique on this machine and safe in a file name.
	ID string
	// WorkingDir is the project, at this same absolute path inside, and writable.
	WorkingDir string
	// ReadOnly has WorkingDir shown for reading. A driver that cannot keep it from being
	// written makes no sandbox then.
	ReadOnly bool
	// Home is a host directory, private to this sandbox, that is the agent's
	// HOME inside, at the path Info.Home. It outlives the sandbox; its owner
	// removes it.
	Home string
	// HomeFiles are put into Home where nothing is at their places, which are relative to it
	// and have slashes: settings that the sandbox has a copy of.
	HomeFiles map[string][]byte
	// HomeLinks are symbolic links in Home: by their places, as those of HomeFiles, the absolute
	// paths that they lead to inside. One that leads elsewhere is replaced, and removed where the
	// path is empty.
	HomeLinks map[string]string
	// Caches limits the bytes of package managers' caches that are kept for the next sandbox of the
	// project; 0 keeps none.
	Caches int64
	// Files appear at their absolute paths inside, read-only, in the place of what is there.
	Files map[string][]byte
	// Mounts are further host files and directories that appear at the same
	// absolute path inside.
	Mounts []Mount
	// Doors are the only ways out: each is a loopback listener inside whose
	// connections are made on the host by Dial.
	Doors []Door
	// Road carries what is connected inside by plain TCP, where the sandbox has a network of
	// its own; nil carries nothing.
	Road Road
	// Rules close files; nil closes none.
	Rules *Rules
	// Limits bound what it uses.
	Limits Limits
	// Labels say what the sandbox is for ("agent", "session"); shown by
	// gander sandbox list.
	Labels map[string]string
}

// Rules close files of the project, and of writable mounts, to everything in the
// sandbox: what matches their .gooseignore files or the person's own. Files that
// would make the host do something are protected from being written.
type Rules struct {
	// Own is the path of the person's own rules file on the host; it need not exist.
	Own string
	// Writes change which files are protected.
	Writes policy.Writes
	// Place says where git keeps what belongs to the project elsewhere. Spec.Mounts show it.
	Place gitconfig.Place
	// Whole lets all of Place.Top be written, and not the project alone.
	Whole bool
	// GitStore is a directory of the host, one of Spec.Mounts for reading, that is closed
	// but for what RuleKeeper.OpenGit opens in it; empty for none.
	GitStore string
	// Optional lets the sandbox be made where the kernel cannot keep the rules; a
	// warning says so then.
	Optional bool
	// Denied is told when the rules refused something, a bounded number of times,
	// and must not block. May be nil.
	Denied func(Denial)
}

// Denial is an operation that rules refused.
type Denial struct {
	// Operation is the system call ("open", "renameat2").
	Operation string `json:"operation"`
	// Path is what was refused, absolute, as the sandbox has it.
	Path string `json:"path"`
	// PID is the process that tried, inside.
	PID int `json:"pid"`
	// Rule is what protects the path from being written, or DeniedUnheard, in a few words;
	// empty when rules close it. Why says what a write would do, and Allow is the entry of
	// the policy's writes.allow that permits it; empty when none does.
	Rule  string `json:"rule,omitempty"`
	Why   string `json:"why,omitempty"`
	Allow string `json:"allow,omitempty"`
	// Setting is another setting that permits it, as it is written; empty when none does.
	Setting string `json:"setting,omitempty"`
	// By says in a few words what closes the path, where Rule is empty.
	By string `json:"by,omitempty"`
}

// DeniedUnheard is the Rule of a denial of a socket at which nobody in the sandbox listens:
// programs outside, who may, do what is asked of them there.
const DeniedUnheard = "sockets"

// DeniedByPlace is the Rule of a denial of what is shown for the sake of git alone.
const DeniedByPlace = "project"

// WholeRepository is the setting by which all of the repository may be written that the project
// is a directory of.
const WholeRepository = `"policy": {"project": "repository"}`

// NoSandbox is the setting by which there is no sandbox.
const NoSandbox = `"sandbox": {"driver": "off"}`

// DeniedByGit is the Rule of a denial of git's objects, which keep content of closed
// files.
const DeniedByGit = "policy.git"

// HiddenByGit is the Rule of a denial of an object that is left out of what git sees
// inside, where the policy's git is "hide". A sandbox tells of one such denial.
const HiddenByGit = "policy.git: hide"

// SayHidden is what a person is told of it: git inside calls such objects corrupt.
const SayHidden = "Git objects that hold content of files that rules close are hidden inside (policy.git: \"hide\"), and git there may call them missing or corrupt. The repository is whole, and works outside of the sandbox."

// ClosedFiles says what rules close at the moment.
type ClosedFiles struct {
	// Count is how many files there are and Examples are some of them, relative to the
	// project. What is below a closed directory is not counted, only the directory.
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"`
	// Default says that nobody's rules file is there, and gander's own rules hold.
	Default bool `json:"default,omitempty"`
	// Partial says that the project is too large to have been looked at in full.
	Partial bool `json:"partial,omitempty"`
}

// Repository is a git repository of a project, or of a directory that a Mount adds to it.
// Its paths are relative to the project, where they are in it, and absolute elsewhere.
type Repository struct {
	// Dir is its git directory, and Tree the directory in which its files are, or would be:
	// that of a bare repository is its own.
	Dir  string `json:"dir"`
	Tree string `json:"tree"`
	// Linked says that it is a linked work tree of another one that was found, and shares
	// all but its index and HEAD with that.
	Linked bool `json:"linked,omitempty"`
}

// Repositories are the git repositories of a project, and of the directories that ruled
// Mounts add to it.
type Repositories struct {
	// Found are they, sorted, without those in closed directories.
	Found []Repository `json:"found,omitempty"`
	// Partial says that there may be more: the project is too large, or has more than 64.
	Partial bool `json:"partial,omitempty"`
}

// A RuleKeeper is a Sandbox that keeps its Spec.Rules.
type RuleKeeper interface {
	// Closed looks for what the rules close in the project, and in ruled Mounts, for a
	// second at most.
	Closed(ctx context.Context) (ClosedFiles, error)
	// Judge reports which paths, relative to the project or absolute, the rules close as
	// files.
	Judge(ctx context.Context, paths []string) ([]bool, error)
	// MayWrite reports whether a file may be written inside, by its absolute path without
	// links; it need not be there.
	MayWrite(ctx context.Context, path string) (bool, error)
	// Repositories looks for the project's own git repository and those below it, and so in
	// ruled Mounts, for ten seconds at most: work trees, submodules also without one, and bare
	// repositories. Links to directories are not followed, and git is not asked, so that some
	// may be broken.
	Repositories(ctx context.Context) (Repositories, error)
	// ProtectNamed looks for repositories, for half a minute at most and as Repositories
	// does, and protects from being written what their configuration has git run, or read
	// configuration or hooks from, now. It returns the repositories; an error says why there
	// may be more.
	ProtectNamed(ctx context.Context) (Repositories, error)
	// CloseGit closes what git's object stores in the project hold now, and what anything
	// outside adds to them later; what is made inside from now on can be read. It returns
	// the version of the rules for OpenGit.
	CloseGit(ctx context.Context) (rules uint64, err error)
	// OpenGit opens, after CloseGit, what the stores held then, or, where other stores are
	// given, has git find its objects in those besides: they are files below Rules.GitStore
	// that list directories, one a line, by the object store that they are for, relative
	// to the project or absolute. What comes from outside later stays closed, and so does
	// then all where Repositories does not look. OpenGit fails when the rules have another
	// version, and all is closed again when they change later.
	OpenGit(ctx context.Context, rules uint64, stores map[string]string) error
	// GitChanged reports whether objects came from outside since CloseGit, or OpenGit's
	// rules have changed.
	GitChanged(ctx context.Context) (bool, error)
}

// WritableDirs are the directories of the host that the sandbox can write.
func (s Spec) WritableDirs() []string {
	dirs := []string{s.Home}
	if !s.ReadOnly {
		dirs = append(dirs, s.WorkingDir)
	}
	for _, m := range s.Mounts {
		if m.Writable {
			dirs = append(dirs, m.Path)
		}
	}
	return dirs
}

// Mount is a host path that appears at the same absolute path inside.
type Mount struct {
	Path     string
	Writable bool
	// Ruled is whether Spec.Rules close files in it, as they do in all that is writable.
	Ruled bool
}

// Door is a listener on 127.0.0.1 inside the sandbox. Accepted connections are
// carried to the host over the supervisor's stream; nothing else leaves.
type Door struct {
	Name string
	Dial func(context.Context) (net.Conn, error)
}

// A Road is the way of plain TCP connections out of a sandbox, on the host. Its methods are
// safe for concurrent use.
type Road interface {
	// Known reports whether programs inside may learn that a host leads somewhere: a name
	// with port 0, or an address with a port. Nothing is looked up.
	Known(ctx context.Context, host string, port int) bool
	// Loopback returns the addresses of the host itself that may be reached.
	Loopback() []netip.AddrPort
	// Taken hears that something inside listens at one of them, and is reached instead.
	Taken(at netip.AddrPort)
	// DialHost decides about a host and connects to it.
	DialHost(ctx context.Context, host string, port int) (net.Conn, error)
}

// Info describes a running sandbox.
type Info struct {
	ID     string
	Driver string
	// Isolation lists what holds, in words for people: "user, mount, pid and
	// network namespaces as uid 1000".
	Isolation string
	// Isolated says that nothing of this machine but what Spec names can be reached
	// from inside. Agents need not ask then before they look around.
	Isolated bool
	// Image names the image whose programs the sandbox has; empty means that it has
	// this machine's. Env is the environment that the image sets, see Environment.
	Image string
	Env   []string
	// Limits say what is bounded, by which means, and what is not ("memory: 12 GiB, by
	// cgroup v2").
	Limits []string
	// Warnings are sentences about what does not hold, or is unusual, on this
	// machine ("the project is owned by root, ..."). They are shown in the session.
	Warnings []string
	// Weaker says in a few words each what does not hold that the driver promises
	// ("files are not closed"); empty as a rule. It is in the session's title.
	Weaker []string
	// Enforcement says what keeps Spec.Rules.
	Enforcement Enforcement
	// Home is the path of Spec.Home inside.
	Home string
	// Executable is gander itself inside; empty when it is not there.
	Executable string
	// Doors maps the name of a door to its address inside ("127.0.0.1:40123").
	Doors map[string]string
}

// Enforcement is what keeps rules for files in a sandbox.
type Enforcement struct {
	// Closed is of the files that rules close, Protected of those that can only be read.
	Closed    Means `json:"closed"`
	Protected Means `json:"protected"`
}

// Means is what stands between a process inside and a file.
type Means string

// The means, from the strongest to none.
const (
	// ByKernel is the kernel asking the supervisor about each call that opens a file.
	ByKernel Means = "kernel"
	// ByName is the system knowing names, as they were when the sandbox was made.
	ByName Means = "name"
	// Open is nothing.
	Open Means = "open"
)

// A Sandbox is one running place. Methods are safe for concurrent use.
type Sandbox interface {
	Info() Info
	// Start starts a command. ctx bounds starting, not the process.
	Start(ctx context.Context, cmd Command) (Process, error)
	// Mark notes every process alive now, so that KillSince can spare them.
	Mark(ctx context.Context) (Mark, error)
	// KillSince kills, with SIGKILL, every process in the sandbox that was born
	// after the mark, whatever it did to escape its parent, and returns when
	// none is left. An error means that some may be: close the sandbox.
	KillSince(ctx context.Context, m Mark) (KillReport, error)
	// Done is closed when the supervisor has ended, for whatever reason.
	Done() <-chan struct{}
	// Close kills what runs, ends the supervisor and returns when no process of
	// the sandbox is left. It is safe to repeat.
	Close() error
}

// A Holder is a Sandbox that can keep what runs inside from giving a path another
// meaning while the host follows it.
type Holder interface {
	// Hold keeps every process inside from renaming anything and from making links,
	// until release is called or the time is over; release reports false when it was.
	// It fails where nothing stands between a process and the kernel, see Spec.Rules.
	Hold(ctx context.Context, atMost time.Duration) (release func() bool, err error)
}

// A Ported is a Sandbox whose programs can be reached from the host, at ports that they
// listen at, where its network is its own.
type Ported interface {
	// Listening returns the ports at which programs inside listen.
	Listening(ctx context.Context) ([]int, error)
	// CarryPort carries a connection, which it closes in the end, to what listens at a port,
	// until either side or ctx ends.
	CarryPort(ctx context.Context, port int, conn net.Conn) error
}

// A Toucher is a Sandbox that notes which files something inside may have changed.
type Toucher interface {
	// Touched reports that of files of the project and of ruled Mounts, by their absolute paths
	// without links, since the sandbox was made. It fails where that is not known.
	Touched(ctx context.Context, paths []string) ([]bool, error)
}

// Mark is a moment in the life of a sandbox.
type Mark uint64

// KillReport says what KillSince did.
type KillReport struct {
	Killed   int
	Duration time.Duration
}

// Command is what to run in a sandbox.
type Command struct {
	// Args is the program and its arguments. A program without a slash is looked
	// up in Env's PATH inside the sandbox.
	Args []string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// Dir is the working directory; empty means Spec.WorkingDir.
	Dir string
	// NullStdin makes stdin the null device: nothing can be written to it, and a
	// program that looks sees no pipe to read instead of files.
	NullStdin bool
	// StdoutPath and StderrPath, where they are not empty, are existing files inside,
	// as a rule pipes, that output goes to; the process's own stream is then empty. It
	// is for who lives beside the supervisor and wants to be spared its detour.
	StdoutPath, StderrPath string
	// Infrastructure processes (the agent itself) are spared by KillSince.
	// Whatever they start is not.
	Infrastructure bool
	// Private closes the command itself, and nothing that it starts, to the other processes
	// inside where Spec.Rules are kept: they can neither look into it nor debug it nor
	// get at its streams. Where nothing stands between a process and the kernel it has to
	// close itself, with prctl(PR_SET_DUMPABLE, 0), which a command with rules cannot.
	Private bool
}

// A Process is a command running in a sandbox, with everything it starts. Its
// three streams must be read, written or closed by the caller; they are
// independent of each other.
type Process interface {
	// PID is the process id inside the sandbox.
	PID() int
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Signal sends a signal ("TERM", "INT", "HUP", "KILL") to the command's process group.
	Signal(ctx context.Context, name string) error
	// Kill kills the command and everything it started, however that escaped,
	// and returns when nothing of it is left.
	Kill(ctx context.Context) error
	// Wait returns when the command itself has ended. Background processes it
	// left may go on until Kill or the end of the sandbox.
	Wait(ctx context.Context) (ExitStatus, error)
}

// ExitStatus is how a command ended and what it used.
type ExitStatus struct {
	Code   int    // exit code; 128+n when a signal ended it
	Signal string // "KILL", or empty
	Usage  Usage
}

// Usage is the resource use of a command and its waited-for children.
type Usage struct {
	User, System time.Duration
	MaxRSS       int64 // bytes
}
