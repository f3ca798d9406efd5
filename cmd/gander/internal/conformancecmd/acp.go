package conformancecmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/conformance/acp"
)

// conformanceACPFlags are the flags of gander conformance acp.
type conformanceACPFlags struct {
	checkFlags
	env, askEnv []string
}

func conformanceACP(a *cli.App) *cobra.Command {
	var f conformanceACPFlags
	cmd := &cobra.Command{
		Use:   "acp [flags] -- CMD…",
		Short: "check an agent that speaks ACP on stdio",
		Long: `conformance acp starts CMD as an ACP agent, plays an editor, and plays the language
model behind the agent with a script on this machine's loopback. It holds the agent
against version 1 of the protocol: lifecycle, transport, hostile input, sessions,
prompts, tool calls, permissions, options, cancellation, history, what is left when
it ends, and the shape of every message of the whole run.

CMD gets a home of its own and, in its environment, what gander, goose and opencode
need to find that model. Tell another agent with --env, in which {modelUrl} is the
model's address without /v1, {modelKey} its key, {home} the home and {dir} where
sessions work; all of them may also be used in CMD.

A check that does not apply is n/a with the reason, and never passes. The exit code
is 0 when every check passed or failed as expected, 1 when one did not, 2 when CMD
could not be checked. A list of expected failures has an id and a reason on each
line; one of them that passes fails the run.`,
		Example: `  gander conformance acp -- gander acp --agent goose
  gander conformance acp --only cancel,load --json -- goose acp
  gander conformance acp --junit report.xml -- opencode acp
  gander conformance acp --env OPENAI_BASE_URL={modelUrl}/v1 --env OPENAI_API_KEY={modelKey} -- my-agent --acp`,
		Annotations: cli.Unconfigured(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listACPChecks(a, f.json)
			}
			if len(args) == 0 {
				return cli.UsageError("no command; as in: gander conformance acp -- gander acp")
			}
			return judgeAgent(cmd.Context(), a, args, f)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&f.env, "env", nil, "a variable of the agent's environment, NAME=VALUE; {modelUrl} and {modelKey} lead to the model")
	fl.StringArrayVar(&f.askEnv, "ask-env", nil, "a variable with which the agent asks before it runs a command, for the checks of permissions")
	fl.StringVar(&f.dir, "dir", "", "where sessions work; a sandbox has to see it under the same name (default: a temporary directory)")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for what should happen at once")
	return cmd
}

// judgeAgent runs the checks and prints their report.
func judgeAgent(ctx context.Context, a *cli.App, command []string, f conformanceACPFlags) error {
	expected, err := readExpected(f.expected, acp.ParseExpected)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	self, err := cli.Program()
	if err != nil {
		return err
	}
	report, err := acp.Run(ctx, acp.Options{
		Command: command, Environ: a.Environ, Env: append(installedAgents(a), f.env...), AskEnv: f.askEnv, MCPServer: []string{self, "mcp", "developer"},
		Only: f.only, Timeout: f.timeout, Dir: f.dir, Expected: expected, Each: progressOfChecks(a, f.json), Log: a.Log,
	})
	return conclude(ctx, a, report, err, f.checkFlags)
}

// listedACPCheck is a check as --list prints it.
type listedACPCheck struct {
	ID           string            `json:"id"`
	Word         string            `json:"word"`
	Text         string            `json:"text"`
	Requirements []acp.Requirement `json:"requirements"`
}

func listACPChecks(a *cli.App, asJSON bool) error {
	requirements := map[int]acp.Requirement{}
	for _, r := range acp.Requirements() {
		requirements[r.Number] = r
	}
	var all []listedACPCheck
	for _, c := range acp.Checks() {
		l := listedACPCheck{ID: c.ID, Word: c.Word(), Text: c.Text}
		for _, n := range c.Requirements {
			l.Requirements = append(l.Requirements, requirements[n])
		}
		all = append(all, l)
	}
	if asJSON {
		return a.PrintJSON(map[string]any{"checks": all})
	}
	tab := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(tab, "%s\t%s\t%s\n", c.ID, c.Word, c.Text)
		for _, r := range c.Requirements {
			fmt.Fprintf(tab, "\t\t  R%d (%s): %s\n", r.Number, r.Section, r.Text)
		}
	}
	return tab.Flush()
}

// checkFlags are the flags that both harnesses have.
type checkFlags struct {
	json, list           bool
	junit, expected, dir string
	only                 []string
	timeout              time.Duration
}

func (f *checkFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SetInterspersed(false) // what follows the command is the command's
	cli.JSONFlag(cmd, &f.json)
	fl.BoolVar(&f.list, "list", false, "print the checks and what they show, and check nothing")
	fl.StringVar(&f.junit, "junit", "", "also write JUnit's XML to this file")
	fl.StringVar(&f.expected, "expected-failures", "", "a file of ids of checks that may fail, each with its reason")
	fl.StringSliceVar(&f.only, "only", nil, "only these checks, by id or by the part before the dot")
}

// readExpected reads a list of expected failures with its harness's parser.
func readExpected(file string, parse func(io.Reader) (map[string]string, error)) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the expected failures: %w", err)
	}
	expected, err := parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return expected, nil
}

// installedAgents are the variables that name the agents of this machine: the
// agent that is checked has a home of its own, in which none is installed.
func installedAgents(a *cli.App) (env []string) {
	for _, name := range cli.AgentNames() {
		if command, missing := a.Config.FindAgent(name); missing == nil && len(command) > 0 {
			env = append(env, "GANDER_"+strings.ToUpper(name)+"_CMD="+command[0])
		}
	}
	return env
}
