package config

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/team/orchestrator"
	"gander.dev/gander/sandbox/team/roster"
)

// Names of files and variables that others need to mention.
const (
	UserFile    = "config.json"  // in the home directory
	ProjectFile = ".gander.json" // in the project's root
)

// Config is what holds for a process, or for a session in a project. Fields
// with a JSON name are those of the files.
type Config struct {
	// Agent answers when a session names none; one of AgentNames.
	Agent string `json:"agent"`
	Log   Log    `json:"log"`
	Model Model  `json:"model"`
	// Providers are further endpoints of models by name, of those in the table or others, which
	// Model.Provider, Agent.Provider and manifests choose.
	Providers map[string]Provider `json:"providers"`
	// Agents are the settings of each agent, by name: of those that gander knows,
	// and of others that speak ACP, each with its command.
	Agents map[string]Agent `json:"agents"`
	// Tools are those that agents have: their own, or gander's developer tools.
	Tools string `json:"tools" enum:"native,developer"`
	// Toolchains has sandboxes show the person's compilers, interpreters and their managers
	// that are below the home.
	Toolchains bool `json:"toolchains"`
	// ToolSettings has sandboxes get a copy of the person's settings of tools that hold no secrets.
	ToolSettings bool   `json:"toolSettings"`
	Skills       Skills `json:"skills"`
	// Permissions is which of an agent's questions the person is asked: all, all but
	// those about reading, or none; the last two where the sandbox isolates.
	Permissions string `json:"permissions" enum:"ask,reads,all"`
	// MCP is about the MCP servers that an editor passes.
	MCP     MCP     `json:"mcp"`
	Sandbox Sandbox `json:"sandbox"`
	Upgrade Upgrade `json:"upgrade"`
	// Policy is what sandboxes may do; see EffectivePolicy for where it comes from.
	Policy   policy.Policy `json:"policy"`
	Sessions Sessions      `json:"sessions"`
	// Changes is what is kept of files before each turn.
	Changes Changes `json:"changes"`
	Notify  Notify  `json:"notify"`
	// CancelDeadline is how long a cancelled agent may take to answer before it
	// is ended, from 100ms to 1m.
	CancelDeadline Duration `json:"cancelDeadline"`
	// Silence bounds how long a turn is without a word of the agent until it says who is waited for,
	// from 5s to 1h.
	Silence Duration `json:"silence"`
	// Orchestrator is about the agent of that name, which gives other agents tasks.
	Orchestrator Orchestrator `json:"orchestrator"`

	// Home is the absolute path of the home directory; it need not exist.
	Home string `json:"-"`
	// NoColor is whether the person asked for no colours (NO_COLOR).
	NoColor bool `json:"-"`

	o       Options
	env     environment
	seen    [sha256.Size]byte  // what the files were when they were read, or before
	user    *file              // the user's file as it was read
	keys    map[string]keyFile // by path
	layers  layers
	project []byte // the project's file
	holds   *policy.Effective
	sources map[string]string // the file that set a key
	team    []roster.Manifest
	wrong   []roster.Problem // of manifests
}

// Notify says where a person who is away is told that a run or a question waits for them.
type Notify struct {
	// URL of a webhook or an ntfy topic; empty tells nobody. Whoever knows it may be able to
	// read it.
	URL Secret `json:"url"`
	// Format names what the receiver reads: a JSON object, or a message of ntfy.
	Format string `json:"format" enum:"webhook,ntfy"`
	// TokenEnv names the variable with the receiver's token.
	TokenEnv string `json:"tokenEnv"`
	// Words sends what agents say, too, unless it has content of closed files.
	Words bool `json:"words"`
	// Page is the address at which the person reaches gander serve, for links; empty means the
	// one on this machine.
	Page string `json:"page"`
}

// Changes is what is kept of a project's files, for showing and undoing what turns did.
type Changes struct {
	// Off compares and keeps nothing.
	Off bool `json:"off"`
	// Keep is how long, at least an hour; MaxMiB is how much of a project.
	Keep   Duration `json:"keep"`
	MaxMiB int64    `json:"maxMiB"`
}

// Log says what is logged, and how.
type Log struct {
	Level string `json:"level" enum:"silent,error,warn,info,debug"`
	// Format is empty for pretty on a terminal and from commands for people, and JSON elsewhere.
	Format string `json:"format" enum:"pretty,json"`
	// File gets the log instead of standard error; absolute.
	File string `json:"file"`
}

// Model is where model calls go unless the environment says otherwise.
type Model struct {
	Host string `json:"host"`
	// Provider chooses one of Providers, or of the table, in the place of Host.
	Provider string `json:"provider"`
	// APIKeyEnv names the variable that holds the key, APIKeyFile is the absolute
	// path of a file with it; APIKey is the key itself. At most one is set.
	APIKeyEnv  string `json:"apiKeyEnv"`
	APIKeyFile string `json:"apiKeyFile"`
	APIKey     Secret `json:"apiKey"`
	// Headers are sent with every call, as accounts and proxies want them.
	Headers map[string]Secret `json:"headers"`
	Model   string            `json:"model"`
}

// Agent is what can be set about one agent.
type Agent struct {
	// Command starts it: the program and what comes before the agent's own arguments.
	Command []string `json:"command"`
	// Env are variables for it, none of them secret. In those of an agent that
	// gander does not know, and in its command, placeholders stand for the model.
	Env   map[string]string `json:"env"`
	Mode  string            `json:"mode"`
	Model string            `json:"model"`
	// Provider chooses one of Providers, or of the table, for this agent.
	Provider string `json:"provider"`
	// OneShot starts an agent that gander does not know for each prompt; it speaks no ACP then.
	OneShot bool `json:"oneShot"`
	// Protocol is that of the model calls of an agent that gander does not know.
	Protocol string `json:"protocol" enum:"openai,anthropic"`
	// ReadOnlyPaths are absolute paths of the host that its sandboxes see besides
	// those of Sandbox.ReadOnlyPaths.
	ReadOnlyPaths []string `json:"readOnlyPaths"`
}

// MCP says which MCP servers of the editor agents may use.
type MCP struct {
	// Allow are the names of those about which the person is not asked; "*" is any.
	Allow []string `json:"allow"`
	// Patience bounds how long agents wait for a server to answer what they begin with, from
	// 1s to 30s; the thread goes on without it then.
	Patience Duration `json:"patience"`
}

// Sandbox is what a sandbox is made of, and what it sees.
type Sandbox struct {
	Driver string `json:"driver" enum:"auto,local,docker,off"`
	// Image is the image of sandboxes in containers; empty means the agent's own,
	// as gander sandbox build makes it.
	Image string `json:"image"`
	// ReadOnlyPaths are those of Policy, of which these are the older name.
	ReadOnlyPaths []string `json:"readOnlyPaths"`
	// AllowWeaker lets sandboxes start that cannot keep the rules of .gooseignore.
	AllowWeaker bool `json:"allowWeaker"`
	// Environment is that of Policy, of which this is the older name.
	Environment []string `json:"environment"`
	// Devices are those of the machine that sandboxes get, as paths below /dev, or a graphics
	// processor by its maker.
	Devices []string `json:"devices"`
	// Ports of the sandboxes of agents are open on this machine's loopback, as 5173, or 8080:5173
	// at another port of this machine.
	Ports []string `json:"ports"`
	// Caches limits what is kept of each project's caches of package managers between
	// sandboxes; 0 keeps none.
	Caches policy.Size `json:"caches"`
	// Pool is how many sandboxes gander acp makes ahead, so that the next session
	// need not wait for one; 0 makes none. Each takes some 30 MB of memory.
	Pool int64 `json:"pool"`
}

// MaxPool bounds Sandbox.Pool.
const MaxPool = 8

// Sessions says how conversations are kept.
type Sessions struct {
	// Sync is when an entry of a transcript counts as kept: always is when no loss
	// of power takes it back, interval within a second, never when the system has it.
	Sync  string `json:"sync" enum:"always,interval,never"`
	Reset Reset  `json:"reset"`
	Runs  Runs   `json:"runs"`
}

// Reset says when a session of gander run --session, or of a loop, is old, so that
// its name goes on with a new one. Sessions of editors are never reset.
type Reset struct {
	// Mode is none, daily (before AtHour o'clock) or idle.
	Mode   string `json:"mode" enum:"none,daily,idle"`
	AtHour int64  `json:"atHour"`
	// IdleMinutes is how long nothing happened in it; 0 is an hour with the mode
	// idle, and for ever with another one.
	IdleMinutes int64 `json:"idleMinutes"`
}

// Skills says which of the person's skills sandboxes show.
type Skills struct {
	// User has them show those of ~/.agents/skills and ~/.claude/skills.
	User bool `json:"user"`
}

// Upgrade says where gander upgrade looks for newer versions.
type Upgrade struct {
	// URL is the address of an ACP registry, or of gander's entry in one; empty for none.
	URL string `json:"url"`
}

// Orchestrator says who plans a turn of the orchestrator, and how far that goes.
type Orchestrator struct {
	// Planner names an agent that is asked for each decision; empty means the model itself is.
	Planner string `json:"planner"`
	Limits  Limits `json:"limits"`
}

// Limits bound a turn of the orchestrator; Tokens 0 is any number.
type Limits struct {
	// Steps are answers of its model, Delegations tasks, Parallel those at a time, and
	// Repeats how often it may want the same with the same outcome.
	Steps       int64 `json:"steps"`
	Delegations int64 `json:"delegations"`
	Parallel    int64 `json:"parallel"`
	Repeats     int64 `json:"repeats"`
	// Time does not pass while the person is asked something.
	Time   Duration `json:"time"`
	Tokens int64    `json:"tokens"`
}

// Runs says how many run traces are kept, and how long; 0 days is for ever.
type Runs struct {
	Keep    int64 `json:"keep"`
	MaxDays int64 `json:"maxDays"`
}

func defaults() *Config {
	return &Config{
		Agent:          agents.Default(),
		Tools:          "native",
		Toolchains:     true,
		ToolSettings:   true,
		Skills:         Skills{User: true},
		Permissions:    "ask",
		Log:            Log{Level: "warn"},
		Sandbox:        Sandbox{Driver: "auto", Pool: 1, Caches: 10 << 30},
		Sessions:       Sessions{Sync: "always", Reset: Reset{Mode: "none", AtHour: 4}, Runs: Runs{Keep: 1000}},
		Changes:        Changes{Keep: Duration(30 * 24 * time.Hour), MaxMiB: 512},
		Notify:         Notify{Format: "webhook"},
		MCP:            MCP{Patience: Duration(10 * time.Second)},
		CancelDeadline: Duration(2 * time.Second),
		Silence:        Duration(time.Minute),
		Orchestrator:   Orchestrator{Limits: limitsOf(orchestrator.DefaultLimits())},
		sources:        map[string]string{},
	}
}

func limitsOf(l orchestrator.Limits) Limits {
	return Limits{int64(l.Steps), int64(l.Delegations), int64(l.Parallel), int64(l.Repeats), Duration(l.Time), l.Tokens}
}

// RunLimits are the limits of a turn of the orchestrator.
func (c *Config) RunLimits() orchestrator.Limits {
	l := c.Orchestrator.Limits
	return orchestrator.Limits{
		Steps: int(l.Steps), Delegations: int(l.Delegations), Parallel: int(l.Parallel), Repeats: int(l.Repeats), Time: time.Duration(l.Time), Tokens: l.Tokens,
	}
}

// Secret is a value that shows itself only when asked.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String says only whether there is a value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON is String as JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Duration is a length of time, written as in "1.5s" or "200ms".
type Duration time.Duration

// String is the duration as it is written.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// ErrFlag is what errors about a flag are.
var ErrFlag = errors.New("a flag is wrong")

// Error is something wrong in the configuration.
type Error struct {
	// File is where it is; empty for a flag or a variable.
	File string
	// Line and Column are in File, from 1.
	Line, Column int
	// Path is the key ("agents.goose.command[0]"), flag or variable; empty when
	// the file as a whole is meant.
	Path string
	// Reason says what is wrong and what would be right.
	Reason string
}

// Is makes an error about a flag an [ErrFlag].
func (e *Error) Is(target error) bool {
	return target == ErrFlag && e.File == "" && strings.HasPrefix(e.Path, "--")
}

// Error is all of it on one line. What the file says in it does nothing to a terminal: a
// project's file is somebody else's.
func (e *Error) Error() string {
	s := e.Reason
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	s = plain(s)
	if e.File == "" {
		return s
	}
	if e.Line == 0 {
		return e.File + ": " + s
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, s)
}

// plain is a text with what cannot be printed as Go writes it.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
