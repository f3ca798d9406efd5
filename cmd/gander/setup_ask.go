package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"gander.dev/gander/cmd/gander/internal/clients"
	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox/outbound/gateway"
)

// interview asks for everything; what is known already is the answer of who
// presses Enter.
func (a *app) interview(ctx context.Context, p *prompter, cfg *config.Config, g *answers) error {
	p.say("gander needs a model: any endpoint that is compatible with OpenAI's. Enter takes the answer in [brackets].")
	var err error
	if g.host, err = p.ask(ctx, "Endpoint (https://…)", g.host, checkHostAnswer); err != nil {
		return err
	}
	g.host = plainHost(g.host)
	if err := a.askKey(ctx, p, cfg, g); err != nil {
		return err
	}
	if err := a.askModel(ctx, p, g); err != nil {
		return err
	}
	agents := cfg.AgentNames()
	if g.agent, err = p.ask(ctx, "Agent that answers ("+strings.Join(agents, ", ")+")", g.agent, oneOf(agents)); err != nil {
		return err
	}
	g.sandbox, err = p.ask(ctx, "Sandbox ("+strings.Join(sandboxChoices(), ", ")+")", g.sandbox, oneOf(sandboxChoices()))
	return err
}

func checkHostAnswer(s string) error {
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return nil
	}
	return fmt.Errorf("it begins with http:// or https://")
}

func oneOf(values []string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return fmt.Errorf("choose one of %s", strings.Join(values, ", "))
	}
}

// askKey asks where the key is. A key that is typed goes into a file of its own.
func (a *app) askKey(ctx context.Context, p *prompter, cfg *config.Config, g *answers) error {
	p.say("The key never enters a sandbox, and is not written into config.json. Answer with the name of")
	p.say("a variable that holds it, the path of a file that holds it, \"type\" to type it now, or \"none\".")
	known := cmp.Or(g.keyFile, g.keyEnv)
	if known == "" {
		known = "none"
	}
	answer, err := p.ask(ctx, "Key", known, func(s string) error { return a.checkKeyAnswer(s) })
	if err != nil {
		return err
	}
	g.keyEnv, g.keyFile, g.newKey = "", "", ""
	switch {
	case answer == "none":
	case answer == "type":
		key, err := p.secret(ctx, "The key (it is not shown)")
		if err != nil {
			return err
		}
		g.keyFile, g.newKey = filepath.Join(cfg.Home, keyFileName), config.Secret(key)
		p.say("It will be kept in " + g.keyFile + ", which only you can read.")
	case strings.ContainsAny(answer, `/\`):
		g.keyFile = answer
	default:
		g.keyEnv = answer
	}
	return nil
}

func (a *app) checkKeyAnswer(s string) error {
	switch {
	case s == "none" || s == "type":
		return nil
	case strings.ContainsAny(s, `/\`):
		if !filepath.IsAbs(s) {
			return fmt.Errorf("the path of the file must be absolute")
		}
		_, err := config.ReadKeyFile(s)
		return err
	case variable(a.environ, s) == "":
		return fmt.Errorf("there is no variable of that name here; answer \"type\" to type the key itself")
	}
	return nil
}

// offerEditor puts gander into the clients that the person names.
func (a *app) offerEditor(ctx context.Context, p *prompter) error {
	if p == nil {
		return nil
	}
	known := targetNames()
	answer, err := p.ask(ctx, "Put gander into ("+strings.Join(known, ", ")+")", "none", func(s string) error {
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
		if err := a.configureClient(clients.Find(name), configFlags{write: true}); err != nil {
			return err
		}
	}
	return nil
}

func isSeparator(r rune) bool { return r == ',' || r == ' ' }

// shownModels bounds the list of models to choose from.
const shownModels = 30

// askModel asks for the model, by name or by its number in what the endpoint lists.
func (a *app) askModel(ctx context.Context, p *prompter, g *answers) error {
	models := a.modelsAt(ctx, *g)
	for i, m := range models {
		if i == shownModels {
			p.say(fmt.Sprintf("     … and %d more", len(models)-i))
			break
		}
		p.say(fmt.Sprintf("%4d  %s", i+1, printable(m)))
	}
	question := "Model"
	if len(models) > 0 {
		question = "Model (name or number)"
		if g.model == "" && len(models) == 1 {
			g.model = models[0]
		}
	}
	answer, err := p.ask(ctx, question, g.model, nil)
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
func (a *app) modelsAt(ctx context.Context, g answers) []string {
	key, err := g.key(a.environ)
	if err != nil {
		return nil
	}
	a.secrets.learn([]string{key.Reveal()})
	ctx, stop := context.WithTimeout(ctx, setupTimeout)
	defer stop()
	door, err := a.wire().gateway(config.Endpoint{BaseURL: g.host, APIKey: key, Headers: a.cfg.Model.Headers}, nil)
	if err != nil {
		return nil
	}
	defer func() { _ = door.Close() }()
	return listModels(ctx, door)
}

// maxModelList bounds what is read of an endpoint's list.
const maxModelList = 4 << 20

// listModels asks for the models through the door that agents use; none when the
// endpoint does not list them.
func listModels(ctx context.Context, door *gateway.Gateway) []string {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return door.Dial(ctx) },
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/models", nil)
	if err != nil {
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+door.Token())
	res, err := client.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if res.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(res.Body, maxModelList)).Decode(&list) != nil {
		return nil
	}
	var models []string
	for _, m := range list.Data {
		models = append(models, m.ID)
	}
	slices.Sort(models)
	return models
}

// prompter asks a person. Questions go to stderr: stdout is for what was done.
type prompter struct {
	in  io.Reader
	buf *bufio.Reader
	out io.Writer
}

func newPrompter(in io.Reader, out io.Writer) *prompter {
	return &prompter{in: in, buf: bufio.NewReader(in), out: out}
}

func (p *prompter) say(text string) { fmt.Fprintln(p.out, text) }

// tries bounds how often a question is repeated.
const tries = 5

// ask asks until check, which may be nil, takes the answer. An empty answer is
// the known one.
func (p *prompter) ask(ctx context.Context, question, known string, check func(string) error) (string, error) {
	for range tries {
		fmt.Fprint(p.out, question)
		if known != "" {
			fmt.Fprintf(p.out, " [%s]", known)
		}
		fmt.Fprint(p.out, ": ")
		answer, err := p.line(ctx)
		if err != nil {
			return "", err
		}
		answer = cmp.Or(answer, known)
		if answer == "" {
			continue
		}
		if check == nil {
			return answer, nil
		}
		if err = check(answer); err == nil {
			return answer, nil
		}
		p.say("  " + messageOf(err))
	}
	return "", usageError("no usable answer to %q; run gander setup again, or use --non-interactive", question)
}

func (p *prompter) yes(ctx context.Context, question string, otherwise bool) (bool, error) {
	known := "no"
	if otherwise {
		known = "yes"
	}
	answer, err := p.ask(ctx, question, known, oneOf([]string{"yes", "no", "y", "n"}))
	return strings.HasPrefix(answer, "y"), err
}

// line reads a line. The reading goes on when ctx ends; the process does not.
func (p *prompter) line(ctx context.Context) (string, error) {
	return p.await(ctx, func() (string, error) {
		line, err := p.buf.ReadString('\n')
		if err == io.EOF && line != "" {
			err = nil
		}
		return strings.TrimSpace(line), err
	})
}

// secret reads a line that the terminal does not show.
func (p *prompter) secret(ctx context.Context, question string) (string, error) {
	f, ok := p.in.(*os.File)
	if !ok {
		return "", usageError("a key is typed on a terminal only")
	}
	before, err := term.GetState(int(f.Fd()))
	if err != nil {
		return "", fmt.Errorf("hiding what is typed: %w", err)
	}
	for range tries {
		fmt.Fprint(p.out, question, ": ")
		key, err := p.await(ctx, func() (string, error) {
			raw, err := term.ReadPassword(int(f.Fd()))
			return strings.TrimSpace(string(raw)), err
		})
		p.say("")
		if err != nil {
			_ = term.Restore(int(f.Fd()), before) // the reading may still hide
			return "", err
		}
		if key != "" {
			return key, nil
		}
	}
	return "", usageError("no key was typed; run gander setup again")
}

func (p *prompter) await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() { text, err := read(); done <- result{text, err} }()
	select {
	case r := <-done:
		if r.err == io.EOF {
			return "", usageError("the input ended before setup was done; nothing was written")
		}
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
