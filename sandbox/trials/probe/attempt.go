package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Verb is the hidden command under which the program is an attempt.
const Verb = "probe-attempt"

// Facts are what an attempt is told. Nothing in them is secret.
type Facts struct {
	// Mark is what it prints when it has got through without reading the secret.
	Mark string `json:"mark"`
	// Dir is the case's own directory in the project, Out one beside the project that
	// can be written, too, Beside one that the sandbox does not show, Project the whole.
	Dir     string `json:"dir"`
	Out     string `json:"out"`
	Beside  string `json:"beside"`
	Project string `json:"project"`
	// Victim is a process outside that has VictimName among its arguments.
	Victim     int    `json:"victim"`
	VictimName string `json:"victimName"`
	// Ports are those of the listeners outside, by network ("tcp4"); Address is an
	// address of the machine that is not loopback, Abstract a socket's name.
	Ports    map[string]int `json:"ports"`
	Address  string         `json:"address,omitempty"`
	Abstract string         `json:"abstract"`
	// Machine are numbers that only this machine has: interfaces, inodes.
	Interfaces []string `json:"interfaces,omitempty"`
	// Outside says that this is the control: what would disturb the machine is
	// done in namespaces only, or not.
	Outside bool `json:"outside"`
	// Rounds is how often what depends on luck is tried.
	Rounds int `json:"rounds"`
	// Executable is this program.
	Executable string `json:"executable"`
}

// secretPrefix begins every secret, by which attempts know it.
const secretPrefix = "gander-probe-canary-"

// allRounds is what an attempt says that did not get through in as many rounds as its Facts
// say: one that ended before proves nothing.
const allRounds = "in all rounds"

// attempt returns what it got hold of; nothing and no error mean that it got
// through all the same.
type attempt func(f Facts, args []string) ([]byte, error)

// Main is an attempt: args are Verb, its name with its arguments, and its Facts in
// JSON. It prints what it got hold of, or why it did not. It must be called first
// thing in main.
func Main(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) != 3 || args[0] != Verb {
		fmt.Fprintln(stdout, "probe: not started as "+Verb)
		return 2
	}
	var f Facts
	if err := json.Unmarshal([]byte(args[2]), &f); err != nil {
		fmt.Fprintln(stdout, "probe:", err)
		return 2
	}
	if args[1] == "victim" {
		return beVictim(stdin, stdout)
	}
	got, err := attemptNamed(args[1], f)
	if err != nil {
		fmt.Fprintln(stdout, "not through:", err)
		return 1
	}
	if got == nil {
		got = []byte(f.Mark)
	}
	_, _ = stdout.Write(append(got, '\n'))
	return 0
}

// attemptNamed carries out the attempt whose name is the longest beginning.
func attemptNamed(name string, f Facts) ([]byte, error) {
	all := attempts()
	for head, rest := name, ""; head != ""; {
		if try := all[head]; try != nil {
			return try(f, strings.Fields(rest))
		}
		i := strings.LastIndexByte(head, ' ')
		if i < 0 {
			break
		}
		head, rest = head[:i], head[i+1:]+" "+rest
	}
	return nil, fmt.Errorf("there is no attempt %q in this program", name)
}
