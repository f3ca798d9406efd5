package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gander.dev/gander/cmd/gander/internal/cli"
)

func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	a := &cli.App{Stdio: cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, Secrets: cli.NewSecrets(nil)}
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" { // cobra's
				walk(sub)
			}
		}
	}
	walk(root(a))
	if len(all) < 15 {
		t.Fatalf("only %d commands: the test looks in the wrong place", len(all))
	}
	return all
}

// Every command says what it does and shows how; lines fit an ordinary terminal.
func TestEveryCommandShowsHow(t *testing.T) {
	for _, c := range commands(t) {
		if c.Short == "" || !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s: a summary or an example is missing", c.CommandPath())
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len([]rune(strings.TrimSpace(line))) > 115 {
				t.Errorf("%s: a line of its help is too long: %s", c.CommandPath(), line)
			}
		}
		for line := range strings.Lines(c.Example) {
			if strings.TrimSpace(line) != "" && !strings.Contains(line, "gander") {
				t.Errorf("%s: an example without gander: %s", c.CommandPath(), line)
			}
		}
		if strings.Contains(c.UsageString(), "(default )") {
			t.Errorf("%s: a flag shows a default that is none", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s does not say what it is", c.CommandPath(), f.Name)
			}
		})
	}
}

// What a flag can be, the shell can complete.
func TestChoicesAreCompleted(t *testing.T) {
	for _, c := range commands(t) {
		for _, name := range []string{"agent", "sandbox", "format", "approve", "profile", "enforce", "plugin"} {
			if c.Flags().Lookup(name) == nil {
				continue
			}
			if _, ok := c.GetFlagCompletionFunc(name); !ok {
				t.Errorf("%s --%s is not completed", c.CommandPath(), name)
			}
		}
	}
}

// Who gives a flag what it does not take is told what it takes, not how that was parsed.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	wrong := 0
	for _, c := range commands(t) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"abc", "99999999999999999999999"} {
				err := c.Flags().Set(f.Name, value)
				if err == nil {
					continue
				}
				wrong++
				said := cli.FlagProblem(err)
				if strings.Contains(said, "strconv") || strings.Contains(said, "time:") || !strings.Contains(said, "--"+f.Name) || !strings.Contains(said, value) {
					t.Errorf("%s: %s", c.CommandPath(), said)
				}
			}
		})
	}
	if wrong < 20 {
		t.Errorf("only %d values were wrong", wrong)
	}
}
