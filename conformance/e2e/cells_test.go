package e2e

import (
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"
)

// The suite runs over every agent in every kind of sandbox, in check in a part of the pairs
// (table_test.go). A further agent, or a further driver, joins by one entry of these lists.
var (
	agents = []*agent{
		{
			name: "goose", share: 0.65, path: "sandbox/node_modules/@aaif/goose-binary-linux-x64/bin/goose", model: "gpt-4o",
			shell: "shell", write: "write", pathArg: "path",
			free: "auto", asks: "approve", goesOn: true, holds: 1_500_000,
			strict: "chat", refused: func(a *agent, _ string) step { return a.runs("touch strict.txt") },
		},
		{
			name: "opencode", share: 0.35, path: "sandbox/node_modules/opencode-linux-x64/bin/opencode", model: "gpt-4o",
			shell: "bash", write: "write", pathArg: "filePath",
			free: "build", asks: "ask", holds: 40_000,
			strict: "plan", refused: func(a *agent, project string) step { return a.writes(project+"/strict.txt", "x") },
		},
	}
	drivers = []*driver{
		{
			name: "local", share: 0.7,
			need: func(*testing.T) {}, env: func() map[string]string { return nil },
		},
		{
			name: "docker", share: 0.3, need: needDocker, env: dockerEnv, group: dockerGroup,
			lost:       map[string]string{"DOCKER_HOST": "unix:///nowhere/docker.sock"},
			containers: dockerContainers, roots: dockerRoots, inspect: dockerInspect,
		},
	}
)

// An agent is what the suite has to know about one.
type agent struct {
	name, path, model string
	share             float64 // of long repetitions
	// Names of its tools, and of the argument that is the path of a file.
	shell, write, pathArg string
	// Modes: free runs everything, asks asks before, strict refuses.
	free, asks, strict string
	// refused is what the mode strict keeps from happening.
	refused func(a *agent, project string) step
	// goesOn: after a rejection the model is asked again. Others end the turn.
	goesOn bool
	// holds is how many bytes of text its conversations hold before it begins to
	// summarize them.
	holds int
}

func (a *agent) variable(name string) string { return strings.ToUpper(a.name) + name }

// program returns the path of the real agent, where every user can read it.
func (a *agent) program(t *testing.T) string {
	t.Helper()
	p := fromRoot(t, a.path)
	need(t, runtime.GOOS == "linux" && exists(p), a.name+" (make agents)")
	return stage(t, p)
}

func (a *agent) env(t *testing.T) map[string]string {
	return map[string]string{"GANDER_" + a.variable("_CMD"): a.program(t), a.variable("_MODEL"): a.model}
}

// runs is a step that runs a command.
func (a *agent) runs(command string) step {
	return step{"tool": a.shell, "args": map[string]any{"command": command, "description": "a command"}}
}

// writes is a step that writes a file.
func (a *agent) writes(path, content string) step {
	return step{"tool": a.write, "args": map[string]any{a.pathArg: path, "content": content}}
}

// A driver is what the suite has to know about a kind of sandbox. The functions
// that are nil belong to drivers whose processes are not below gander.
type driver struct {
	name  string
	share float64 // of long repetitions
	need  func(t *testing.T)
	env   func() map[string]string
	// group is the group that a user needs to use it.
	group func(t *testing.T) int
	// lost are variables that make it unusable, whose values an error must name.
	lost map[string]string
	// containers lists what there is of a gander's home; roots are their first
	// processes, inspect is all that is known of them.
	containers func(t *testing.T, home string) []string
	roots      func(t *testing.T, containers []string) []int
	inspect    func(t *testing.T, containers []string) string
}

// A cell is an agent in a kind of sandbox.
type cell struct {
	*agent
	driver *driver
}

func (c cell) String() string { return c.agent.name + " in " + c.driver.name }

func (c cell) share() float64 { return c.agent.share * c.driver.share }

// part returns how many of a test's repetitions are done in this cell, as one of those
// that the table has for the test.
func (w *world) part(repetitions float64) int {
	sum := 0.0
	for _, s := range spots(w.t) {
		sum += s.share()
	}
	return max(1, int(math.Ceil(repetitions*w.cell.share()/sum)))
}

func (c cell) flags() []string {
	return []string{"--agent", c.agent.name, "--sandbox", c.driver.name}
}

func (c cell) env(t *testing.T) map[string]string {
	env := c.agent.env(t)
	maps.Copy(env, c.driver.env())
	return env
}

// home is the cell of the tests that are about gander and the protocol alone.
var home = cell{agents[0], drivers[0]}

// containers lists the containers of this world, also the stopped ones.
func (w *world) containers() []string {
	w.t.Helper()
	if w.cell.driver.containers == nil {
		return nil
	}
	return w.cell.driver.containers(w.t, w.ganderHome())
}

// below returns the processes that belong to a gander: those below it, and those
// in its containers.
func (w *world) below(e *editor) []proc {
	w.t.Helper()
	all := descendants(w.t, e.pid())
	if containers := w.containers(); len(containers) > 0 {
		for _, pid := range w.cell.driver.roots(w.t, containers) {
			if p, ok := readProc(pid); ok {
				all = append(append(all, p), descendants(w.t, pid)...)
			}
		}
	}
	return all
}

// noContainers waits until no container of this world is left: the daemon removes
// them in its own time, and after a kill nobody waits for it.
func (w *world) noContainers() {
	w.t.Helper()
	if w.cell.driver.containers != nil {
		eventually(w.t, "all containers to be gone", func() bool { return len(w.containers()) == 0 })
	}
}
