package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Policy is one layer of the section, or what holds. The zero value of a field of
// a layer means that the layer does not set it.
type Policy struct {
	// ReadOnlyPaths are absolute paths of the host that sandboxes may read besides
	// the project and the system.
	ReadOnlyPaths []string `json:"readOnlyPaths"`
	// Environment names the variables of the host that are passed into sandboxes,
	// none of them secret. Nothing else of the host's environment is.
	Environment []string `json:"environment"`
	// Writes are the files of the project that nothing inside may write.
	Writes Writes `json:"writes"`
	// Project says how much is shown where the project is a directory of a repository, or has
	// its git directory elsewhere: empty for that to be read, ProjectRepository or
	// ProjectDirectory.
	Project string `json:"project" enum:"repository,directory"`
	// Git says what happens when git keeps content of files that .gooseignore
	// closes: one of GitWarn, GitRefuse, GitHide.
	Git     string  `json:"git" enum:"warn,refuse,hide"`
	Network Network `json:"network"`
	Model   Model   `json:"model"`
	// Canaries says what happens when content of closed files is seen on its way
	// out: one of CanariesShow, CanariesStop, CanariesOff.
	Canaries string `json:"canaries" enum:"show,stop,off"`
	Limits   Limits `json:"limits"`
}

// The values of Policy.Git.
const (
	GitWarn   = "warn"   // the session says which files
	GitRefuse = "refuse" // the session answers no prompt
	GitHide   = "hide"   // their content cannot be read from git's objects either
)

// The values of Policy.Project, besides empty.
const (
	ProjectRepository = "repository" // all of the repository may be written
	ProjectDirectory  = "directory"  // the directory alone is shown
)

// The values of Policy.Canaries.
const (
	CanariesShow = "show" // the session says so
	CanariesStop = "stop" // and its turn ends
	CanariesOff  = "off"  // nothing is looked for
)

// Writes change which files are protected from being written inside. An entry is
// "@" and the name of a group of [Groups], or a pattern: see [Pattern].
type Writes struct {
	// Protect adds to what is protected by default.
	Protect []string `json:"protect"`
	// Allow takes away from it; it counts before Protect.
	Allow []string `json:"allow"`
}

// Network is what can be reached besides the model; by default nothing. Package
// gateway reads the entries.
type Network struct {
	// Allow are hosts with a port, "github.com:443" or "*.npmjs.org:443".
	Allow []string `json:"allow"`
	// Presets are names of lists of hosts, of package managers and of git's.
	Presets []string `json:"presets" enum:"go,npm,pypi,crates,debian,git,alpine,gradle,hex,maven,nuget,rubygems,ubuntu"`
	// Ask makes a host that is not allowed a question to the person, where there
	// is an editor to ask in.
	Ask bool `json:"ask"`
}

// Open reports whether anything but the model can be reached, or asked for.
func (n Network) Open() bool { return len(n.Allow) > 0 || len(n.Presets) > 0 || n.Ask }

// Model bounds the model calls of a session.
type Model struct {
	// Allow are the names of models that may be called, where "*" at the end stands
	// for any rest; empty allows every model.
	Allow []string `json:"allow"`
	// Remote lets a call have the endpoint itself reach other hosts: fetch what an address
	// leads to, search the web, call servers of tools.
	Remote bool `json:"remote"`
	// MaxTokens is how many tokens, in and out, a session may use; 0 is no bound.
	MaxTokens int64 `json:"maxTokens"`
	// MaxCost is what a session's calls may cost, in Currency; 0 is no bound.
	MaxCost float64 `json:"maxCost"`
	// Prices are by the name of the model; "*" at the end stands for any rest.
	Prices map[string]Price `json:"prices"`
	// Currency is the code of ISO 4217 of Prices; empty is USD.
	Currency string `json:"currency"`
}

// Price is what a million tokens cost, in Model.Currency.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CachedInput is for input that the endpoint had in its cache; 0 is Input.
	CachedInput float64 `json:"cachedInput"`
}

// Limits bound what everything in one sandbox uses together; 0 is what the sandbox has by
// default, which is no bound for CPU and Time.
type Limits struct {
	// Memory is in bytes.
	Memory Size `json:"memory"`
	// CPU is in processors: 1.5 is one and a half.
	CPU float64 `json:"cpu"`
	// Processes counts threads, as the kernel does.
	Processes int64 `json:"processes"`
	// Disk is what may be written outside of the project, in bytes.
	Disk Size `json:"disk"`
	// Time is how long one command may run.
	Time Duration `json:"time"`
}

// What a sandbox has by default, or more: of memory it is a part of the machine's.
const (
	DefaultProcesses int64 = 4096
	LeastMemory      Size  = 1 << 30
	leastDisk              = LeastMemory / 2
)

// Default is what holds where no layer says otherwise.
func Default() Policy { return Policy{Git: GitWarn, Canaries: CanariesShow} }

// Size is a number of bytes, written as in "512MB" or "4GiB"; both are powers of
// 1024, as kernels count.
type Size int64

var units = []struct {
	name  string
	bytes int64
}{{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"", 1}}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	word := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(string(text))), "b"), "i")
	for _, u := range units {
		digits, ok := strings.CutSuffix(word, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || n < 0 || n*float64(u.bytes) >= math.MaxInt64 {
			break
		}
		*s = Size(n * float64(u.bytes))
		return nil
	}
	return fmt.Errorf(`%q is not a size; write it like "512MB" or "4GB"`, text)
}

// String is the size in the largest unit that it is a whole number of.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%sB", int64(s)/u.bytes, strings.ToUpper(u.name))
		}
	}
	return "0"
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is a length of time, written as in "90s" or "2h".
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	length, err := time.ParseDuration(string(text))
	if err != nil || length < 0 {
		return fmt.Errorf(`%q is not a duration; write it like "90s" or "2h"`, text)
	}
	*d = Duration(length)
	return nil
}

// String is the duration as it is written.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
