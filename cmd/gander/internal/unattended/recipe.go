package unattended

import (
	"fmt"

	"github.com/spf13/cobra"

	"gander.dev/gander/cmd/gander/internal/cli"
)

// dockerRecipe holds the commands that a person runs; the lines that begin with # are words.
const dockerRecipe = `# One image by itself, which reports to a control plane on this machine. Its run is
# external: the page shows it, and docker ends it. The page, the prompt and messages work.
#
# 1. The images, in a checkout:
make images

# 2. A control plane that containers can reach, under the name by which they know this
#    machine. It can be reached from other machines, too: see the warning it prints.
gander serve --listen 0.0.0.0:3000 --allow-host host.docker.internal:3000

# 3. In another terminal, the model's endpoint as the container reaches it, its key and its
#    name, the workspace, and a run id of your choice, 8 to 64 letters, digits and dashes:
export LLM_HOST=http://host.docker.internal:8000 LLM_API_KEY= GOOSE_MODEL=NAME
docker run --rm --init --add-host host.docker.internal:host-gateway \
  -e LLM_HOST -e LLM_API_KEY -e GOOSE_MODEL -e ITERATION_SLEEP=2 \
  -e CONTROL_PLANE_URL=http://host.docker.internal:3000 \
  -e CONTROL_PLANE_TOKEN="$(cat "${GANDER_HOME:-$HOME/.gander}/serve.token")" \
  -e CONTROL_PLANE_RUN=by-hand-1 \
  -v "$PWD:/workspace" goku-sandbox-goose

# opencode: take goku-sandbox-opencode and -e OPENCODE_MODEL=custom/NAME.
#
# The token is yours: who has it can start runs. gander takes it out of the agent's
# environment, but the agent runs as the same user as its loop. Where you do not trust the
# agent, have gander make the sandbox: gander loop start --sandbox docker
#
# Afterwards: gander loop dismiss by-hand-1, or gander loop delete by-hand-1
`

func loopRecipe(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "recipe docker",
		Short: "how an image runs by itself against a control plane",
		Long: `recipe prints the commands that run one of the images without gander's help, reporting
to a control plane: address, token and allowed host.`,
		Example:   "  gander loop recipe docker",
		ValidArgs: []string{"docker"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "docker" {
				return cli.UsageError("there is one recipe: %s docker", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Out, dockerRecipe)
			return err
		},
	}
}
