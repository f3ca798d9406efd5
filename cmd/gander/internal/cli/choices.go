package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"gander.dev/gander/sandbox/agents"
	"gander.dev/gander/sandbox/drivers"
	"gander.dev/gander/sandbox/router"
	"gander.dev/gander/sandbox/team/orchestrator"
)

// AgentNames returns the agents to choose from, besides those that a configuration adds.
func AgentNames() []string { return agents.Names() }

// AgentWords returns them as the beginning of an enumeration in a sentence.
func AgentWords() string { return strings.Join(agents.Names(), ", ") }

// KnownAgents are the agents that can be chosen: without a configuration those
// that gander brings.
func (a *App) KnownAgents() []string {
	if a.Config == nil {
		return append(AgentNames(), orchestrator.Name)
	}
	return a.Config.Answering()
}

func SandboxChoices() []string {
	return append([]string{router.Auto}, drivers.Names()...)
}

// WeakerFlag is the permission to do without the kernel's help.
func (a *App) WeakerFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.Flags.AllowWeaker, "allow-weaker", false, "start also where less holds than promised: files and network, or closed files, are open")
}

// RouteFlags are the flags that choose who answers and where.
func (a *App) RouteFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.Flags.Agent, "agent", "", "who answers: "+AgentWords()+", an agent of the configuration, or orchestrator, which gives those tasks (default: the configuration's, else "+agents.Default()+")")
	cmd.Flags().StringVar(&a.Flags.Sandbox, "sandbox", "", "where: auto, local, docker or off (default: the configuration's, else auto)")
	a.WeakerFlag(cmd)
	a.CompleteAgents(cmd)
	CompleteFlag(cmd, "sandbox", SandboxChoices()...)
}

func TraceFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "trace", "", "append every frame, with its direction and time, to this file as JSON lines")
}

func CWDFlag(cmd *cobra.Command, cwd *string) {
	cmd.Flags().StringVar(cwd, "cwd", ".", "the project's directory")
}

const UsualListen = "127.0.0.1:3000"
