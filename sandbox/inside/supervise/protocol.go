package supervise

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/policy"
)

// Verb is the hidden command under which the program is the supervisor.
const Verb = "supervise"

// AgentHome is where Spec.Home appears when a sandbox has its own root.
const AgentHome = "/home/agent"

// InsideExecutable is where gander itself appears when a sandbox has its own root.
const InsideExecutable = "/run/gander/bin/gander"

// Setup is what a supervisor is told before anything runs. The zero value
// supervises and changes nothing.
type Setup struct {
	// WorkingDir is where commands run that name no directory.
	WorkingDir string `json:"workingDir,omitempty"`
	// Identity is whom commands run as; nil is the supervisor's own user.
	Identity *Identity `json:"identity,omitempty"`
	// KeepPrivileges leaves commands the capabilities that the supervisor has.
	// Otherwise they have none, also as uid 0. With Rules they keep the machine's sockets and
	// network, too. It excludes Identity.
	KeepPrivileges bool `json:"keepPrivileges,omitempty"`
	// Root, for a supervisor with a mount and a PID namespace of its own, is the
	// file system to build and to move into; nil keeps what is there.
	Root *Root `json:"root,omitempty"`
	// Loopback says to bring up the loopback device of a new network namespace.
	Loopback bool `json:"loopback,omitempty"`
	// Hostname is set when it is not empty; it takes a UTS namespace.
	Hostname string `json:"hostname,omitempty"`
	// Rules close files of directories to everything that runs; nil closes nothing.
	Rules *Rules `json:"rules,omitempty"`
	// Writable are the directories, as the sandbox has them, below which files may be
	// changed, by Landlock where the kernel has it; nil leaves it to mounts.
	Writable []string `json:"writable,omitempty"`
	// Limits bound single processes, and the time of commands; nil bounds nothing.
	Limits *Resources `json:"limits,omitempty"`
	// Groups is how many files the supervisor has as descriptors from 4 on that are lists of
	// threads of control groups (tasks, of cgroups(7) version 1). What is started enters
	// those, the supervisor itself does not.
	Groups int `json:"groups,omitempty"`
	// Denied is told when Rules refused something, a bounded number of times. May
	// be nil.
	Denied func(sandbox.Denial) `json:"-"`
	// Doors are listened for on 127.0.0.1, each on a free port.
	Doors []sandbox.Door `json:"-"`
	// Road carries plain TCP connections and tells which names are known; it takes a network
	// namespace of the sandbox's own, and Rules that the kernel keeps. May be nil.
	Road sandbox.Road `json:"-"`
	// Log takes what the host side notices; nil discards it.
	Log *slog.Logger `json:"-"`
}

// Rules say which files are closed: what matches a .gooseignore file of a tree, or
// the person's own rules; and which can be read, but not changed.
type Rules struct {
	// Trees are directories by their real names, as the sandbox shows them.
	Trees []string `json:"trees"`
	// Roots are those of Trees that somebody works in, as in a project of their own: the
	// project, which is the first tree, is one anyway.
	Roots []string `json:"roots,omitempty"`
	// Project names the directory where relative paths begin, if it is not the first tree, but in it.
	Project string `json:"project,omitempty"`
	// Narrow are the directories of the first tree that may be written; empty is all of it.
	Narrow []string `json:"narrow,omitempty"`
	// Gits are trees that are git directories, by their paths; the value is the directory in it
	// that belongs to the work tree that is shown, and is the path itself where all does.
	Gits map[string]string `json:"gits,omitempty"`
	// Own is the text of the person's own rules file.
	Own string `json:"own,omitempty"`
	// HasOwn says that there is one; an empty file counts.
	HasOwn bool `json:"hasOwn,omitempty"`
	// Writes change what is protected from being written.
	Writes policy.Writes `json:"writes,omitzero"`
	// GitStore is a directory with object stores for inside, by its real name; see
	// sandbox.Rules.
	GitStore string `json:"gitStore,omitempty"`
	// Public are directories of the system in which only what everybody may read is open.
	Public []string `json:"public,omitempty"`
	// OwnMounts says that no mount comes or goes but by the supervisor.
	OwnMounts bool `json:"ownMounts,omitempty"`
	// OwnNetwork says that the network namespace is the sandbox's own.
	OwnNetwork bool `json:"ownNetwork,omitempty"`

	ownPath string // of the person's own rules file, on the host, which is followed
}

// Resources are bounds for where no group of processes can be bounded, and of commands. 0 is
// none.
type Resources struct {
	// Memory bounds the bytes of all processes together: the supervisor sums them up, and kills
	// the largest process.
	Memory int64 `json:"memory,omitempty"`
	// Processes are the user's in this user namespace, besides gander's own (RLIMIT_NPROC).
	Processes int64 `json:"processes,omitempty"`
	// File is the size of one file, in bytes (RLIMIT_FSIZE).
	File int64 `json:"file,omitempty"`
	// Time is how long a command may run.
	Time time.Duration `json:"time,omitempty"`
}

// Identity is a user and a group.
type Identity struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Root describes a file system made of parts of the host's. Nothing else of the
// host is visible in it. All paths are absolute.
type Root struct {
	// System are directories to show read-only where they exist; a symbolic link
	// (/bin on most systems) is made again.
	System []string `json:"system,omitempty"`
	// Binds are shown at their own path, or at Bind.At, in this order.
	Binds []Bind `json:"binds,omitempty"`
	// Links are further names of what is shown.
	Links []Link `json:"links,omitempty"`
	// Files are shown read-only at their paths.
	Files map[string][]byte `json:"files,omitempty"`
	// Devices are shown at their paths, which are below /dev.
	Devices []string `json:"devices,omitempty"`
	// Executable is this program on the host, shown at InsideExecutable.
	Executable string `json:"executable,omitempty"`
	// Private are covered with nothing; those that are not there are passed over.
	Private []Private `json:"private,omitempty"`
	// Temporary bounds all file systems in memory together, in bytes; 0 leaves the
	// kernel's own bounds.
	Temporary int64 `json:"temporary,omitempty"`
	// Resolver has /etc/resolv.conf name the resolver of Setup.Road.
	Resolver bool `json:"resolver,omitempty"`
	// TemporaryFiles bounds the number of files in them; 0 likewise.
	TemporaryFiles int64 `json:"temporaryFiles,omitempty"`
}

// Bind shows a path of the host.
type Bind struct {
	Path     string `json:"path"`
	At       string `json:"at,omitempty"`
	Writable bool   `json:"writable,omitempty"`
}

// Private is a directory or a file that not everybody may read.
type Private struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
}

// Link is a symbolic link from At to Target.
type Link struct {
	At     string `json:"at"`
	Target string `json:"target"`
}

// ErrIsolation is returned by Dial when the kernel refuses what Setup asks for
// (mounts, a fresh /proc). The driver may try again with less.
var ErrIsolation = errors.New("the kernel refuses the isolation asked for")

// ErrGroups is returned by Dial when a file of Setup.Groups does not do what it is for.
var ErrGroups = errors.New("the kernel refuses to put what is started into its control groups")

// ErrRules is returned by Dial when the kernel does not let Setup.Rules be kept.
var ErrRules = errors.New("rules for files cannot be kept here")

type setupParams struct {
	Setup
	Doors []string `json:"doors,omitempty"`
	// Road says that there is Setup.Road.
	Road bool `json:"road,omitempty"`
	// Handover says that descriptor 3 is a socket on which files come.
	Handover bool `json:"handover,omitempty"`
}

// setupResult is S's answer to "setup".
type setupResult struct {
	PID      int               `json:"pid"`
	Doors    map[string]string `json:"doors,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	// Limits say what holds of Setup.Limits and Setup.Writable.
	Limits []string `json:"limits,omitempty"`
	// Handover says that files can be handed over.
	Handover bool `json:"handover,omitempty"`
	// Rules says that Setup.Rules are kept.
	Rules bool `json:"rules,omitempty"`
}

type startParams struct {
	Process        uint64 `json:"process"`
	Args           octets `json:"args"`
	Env            octets `json:"env"`
	Dir            string `json:"dir,omitempty"`
	Infrastructure bool   `json:"infrastructure,omitempty"`
	Private        bool   `json:"private,omitempty"`
	NullStdin      bool   `json:"nullStdin,omitempty"`
	StdoutPath     string `json:"stdoutPath,omitempty"`
	StderrPath     string `json:"stderrPath,omitempty"`
	// HandedOver says that its standard streams were sent as files; stdin, unless
	// NullStdin, stdout and stderr.
	HandedOver bool `json:"handedOver,omitempty"`
}

// octets are texts of any bytes, as arguments and variables are. A string of JSON has
// UTF-8 only, and would change the others.
type octets []string

// MarshalJSON implements json.Marshaler.
func (o octets) MarshalJSON() ([]byte, error) {
	raw := make([][]byte, len(o))
	for i, text := range o {
		raw[i] = []byte(text)
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *octets) UnmarshalJSON(data []byte) error {
	var raw [][]byte
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*o = make(octets, len(raw))
	for i, text := range raw {
		(*o)[i] = string(text)
	}
	return nil
}

type startResult struct {
	PID int `json:"pid"`
}

// processParams name a process; Signal is for "signal" only.
type processParams struct {
	Process uint64 `json:"process"`
	Signal  string `json:"signal,omitempty"`
}

type exitParams struct {
	Process uint64             `json:"process"`
	Status  sandbox.ExitStatus `json:"status"`
}

type markParams struct {
	Mark sandbox.Mark `json:"mark"`
}

// abortParams name a door's stream whose inside end is broken.
type abortParams struct {
	Stream uint32 `json:"stream"`
}

// message is one line of the control stream: a request (ID and Method), an
// answer (ID alone) or an event (Method alone).
type message struct {
	ID     uint64          `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *wireError      `json:"error,omitempty"`
}

// wireError is an error with the one thing callers branch on.
type wireError struct {
	Message string `json:"message"`
	Kind    string `json:"kind,omitempty"`
}

func (e *wireError) Error() string { return e.Message }

func (e *wireError) Unwrap() error {
	for _, k := range errorKinds() {
		if k.name == e.Kind {
			return k.err
		}
	}
	return nil
}

func toWireError(err error) *wireError {
	w := &wireError{Message: err.Error()}
	for _, k := range errorKinds() {
		if errors.Is(err, k.err) {
			w.Kind = k.name
			break
		}
	}
	return w
}

type errorKind struct {
	name string
	err  error
}

func errorKinds() []errorKind {
	return []errorKind{
		{"isolation", ErrIsolation},
		{"rules", ErrRules},
		{"groups", ErrGroups},
		{"notExist", fs.ErrNotExist},
		{"permission", fs.ErrPermission},
		{"tooLong", syscall.E2BIG},
	}
}

// header begins every stream.
type header struct {
	Stream  string `json:"stream,omitempty"` // control, stdio, stderr, door, and those of roads
	Process uint64 `json:"process,omitempty"`
	Door    string `json:"door,omitempty"`
	Error   string `json:"error,omitempty"`
	// Host and Port are those of a road, and Addresses its answer about loopback.
	Host      string           `json:"host,omitempty"`
	Port      int              `json:"port,omitempty"`
	Addresses []netip.AddrPort `json:"addresses,omitempty"`
}

func writeHeader(w io.Writer, h header) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if len(body) > 1<<16-1 {
		return fmt.Errorf("stream header of %d bytes is too long", len(body))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...))
	return err
}

func readHeader(r io.Reader) (h header, err error) {
	var size [2]byte
	if _, err = io.ReadFull(r, size[:]); err != nil {
		return h, fmt.Errorf("reading stream header: %w", err)
	}
	body := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err = io.ReadFull(r, body); err != nil {
		return h, fmt.Errorf("reading stream header: %w", err)
	}
	if err = json.Unmarshal(body, &h); err != nil {
		return h, fmt.Errorf("reading stream header: %w", err)
	}
	return h, nil
}
