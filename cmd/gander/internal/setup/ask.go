package setup

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
)

// interview asks for everything; what is known already is the answer of who
// presses Enter.
func interview(ctx context.Context, a *cli.App, p *show.Prompter, cfg *config.Config, g *answers) error {
	var err error
	if g.provider != nil {
		err = askAddress(ctx, p, g)
	} else {
		p.Say("gander needs a model: any endpoint that is compatible with OpenAI's. Enter takes the answer in [brackets].")
		g.host, err = p.Ask(ctx, "Endpoint (https://…)", g.host, checkHostAnswer)
		g.host = plainHost(g.host)
	}
	if err != nil {
		return err
	}
	if g.provider == nil || g.provider.KeyVariable != "" {
		if err := askKey(ctx, a, p, cfg, g); err != nil {
			return err
		}
	}
	if err := askModel(ctx, a, p, g); err != nil {
		return err
	}
	agents := cfg.AgentNames()
	if g.agent, err = p.Ask(ctx, "Agent that answers ("+strings.Join(agents, ", ")+")", g.agent, show.OneOf(agents)); err != nil {
		return err
	}
	g.sandbox, err = p.Ask(ctx, "Sandbox ("+strings.Join(cli.SandboxChoices(), ", ")+")", g.sandbox, show.OneOf(cli.SandboxChoices()))
	return err
}

func checkHostAnswer(s string) error {
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return nil
	}
	return fmt.Errorf("it begins with http:// or https://")
}

// askKey asks where the key is. A key that is typed goes into a file of its own.
func askKey(ctx context.Context, a *cli.App, p *show.Prompter, cfg *config.Config, g *answers) error {
	p.Say("The key never enters a sandbox, and is not written into config.json. Answer with the name of")
	p.Say("a variable that holds it, the path of a file that holds it, \"type\" to type it now, or \"none\".")
	known := cmp.Or(g.keyFile, g.keyEnv)
	if known == "" {
		known = "none"
	}
	answer, err := p.Ask(ctx, "Key", known, func(s string) error { return checkKeyAnswer(a, s) })
	if err != nil {
		return err
	}
	g.keyEnv, g.keyFile, g.newKey = "", "", ""
	switch {
	case answer == "none":
	case answer == "type":
		key, err := p.Secret(ctx, "The key (it is not shown)")
		if err != nil {
			return err
		}
		g.keyFile, g.newKey = g.storedKey(cfg), config.Secret(key)
		p.Say("It will be kept in " + g.keyFile + ", which only you can read.")
	case strings.ContainsAny(answer, `/\`):
		g.keyFile = answer
	default:
		g.keyEnv = answer
	}
	return nil
}

func checkKeyAnswer(a *cli.App, s string) error {
	switch {
	case s == "none" || s == "type":
		return nil
	case strings.ContainsAny(s, `/\`):
		if !filepath.IsAbs(s) {
			return fmt.Errorf("the path of the file must be absolute")
		}
		_, err := config.ReadKeyFile(s)
		return err
	case cli.Variable(a.Environ, s) == "":
		return fmt.Errorf("there is no variable of that name here; answer \"type\" to type the key itself")
	}
	return nil
}

// offerEditor puts gander into the clients that the person names.
func offerEditor(ctx context.Context, a *cli.App, p *show.Prompter) error {
	if p == nil {
		return nil
	}
	known := targetNames()
	answer, err := p.Ask(ctx, "Put gander into ("+strings.Join(known, ", ")+")", "none", func(s string) error {
		for name := range strings.FieldsFuncSeq(s, isSeparator) {
			if s != "none" && !slices.Contains(known, name) {
				return fmt.Errorf("there is no client %q; name some, separated by commas, or none", name)
			}
		}
		return nil
	})
	if err != nil || answer == "none" {
		return err
	}
	for name := range strings.FieldsFuncSeq(answer, isSeparator) {
		if err := configureClient(a, clients.Find(name), configFlags{write: true}); err != nil {
			return err
		}
	}
	return nil
}

func isSeparator(r rune) bool { return r == ',' || r == ' ' }

// shownModels bounds the list of models to choose from.
const shownModels = 30

// askModel asks for the model, by name or by its number in what the endpoint lists.
func askModel(ctx context.Context, a *cli.App, p *show.Prompter, g *answers) error {
	models := modelsAt(ctx, a, *g)
	for i, m := range models {
		if i == shownModels {
			p.Say(fmt.Sprintf("     … and %d more", len(models)-i))
			break
		}
		p.Say(fmt.Sprintf("%4d  %s", i+1, cli.Printable(m)))
	}
	question := "Model"
	if len(models) > 0 {
		question = "Model (name or number)"
		if g.model == "" && len(models) == 1 {
			g.model = models[0]
		}
	}
	answer, err := p.Ask(ctx, question, g.model, nil)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(models) {
		answer = models[n-1]
	}
	g.model = answer
	return nil
}

// modelsAt are the models that an endpoint lists; none when it does not answer,
// which is said when the answers are tried.
func modelsAt(ctx context.Context, a *cli.App, g answers) []string {
	key, err := g.key(a.Environ)
	if err != nil {
		return nil
	}
	a.Secrets.Learn([]string{key.Reveal()})
	ctx, stop := context.WithTimeout(ctx, setupTimeout)
	defer stop()
	door, err := wire.New(a).Gateway(g.endpoint(a, key), nil)
	if err != nil {
		return nil
	}
	defer func() { _ = door.Close() }()
	return wire.ListModels(ctx, door)
}
