// Package demo shows gander at work with a scripted model.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox/drivers"
)

// Command returns the command gander demo.
func Command(a *cli.App) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see the main job work, with nothing configured",
		Long: `demo shows what gander does: a client starts "gander acp" as an editor would, a real
agent in a sandbox answers a prompt, runs commands, edits a file and is cancelled.
Only the model is a stand-in: a script on this machine's loopback. What gander
promises is checked on the way; exit code 1 when anything does not hold.

It plays once for every agent that is installed and every sandbox that works: in
Docker where a daemon answers and "gander sandbox build" has made the images.`,
		Example: "  gander demo\n  gander demo --agent goose --sandbox local",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return showDemo(cmd.Context(), a, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "play with this agent only: "+strings.Join(cli.AgentNames(), " or "))
	fl.StringVar(&f.sandbox, "sandbox", "", "play in this sandbox only: "+strings.Join(drivers.Isolating(), " or "))
	fl.BoolVar(&f.keep, "keep", false, "keep the demo's directory with the project, the transcript and a trace of every frame")
	cli.CompleteFlag(cmd, "agent", cli.AgentNames()...)
	cli.CompleteFlag(cmd, "sandbox", drivers.Isolating()...)
	return cmd
}

type demoFlags struct {
	agent, sandbox string
	keep           bool
}

// demoScript is what the stand-in model says. Words in capitals are replaced.
const demoScript = `{"rules": [
  {"match": "greeting", "steps": [
    {"reasoning": "I look at the project first.", "text": "Let me look around.", "delay": 15,
     "tool": "SHELL", "args": {"command": "pwd; ls; cat greeting.txt", "description": "looks around"}},
    {"text": "Now I change the file.", "delay": 15, "tool": "edit",
     "args": {"FILE": "PROJECT/greeting.txt", "OLD": "Hello, world", "NEW": "Hello from inside the sandbox"}},
    {"text": "And I try to get out: for the key, for a file beside the project, for a port of this machine.", "delay": 15,
     "tool": "SHELL", "args": {"description": "tries to get out", "command": "echo \"processes that have the key: $(grep -lsa PREFIX /proc/[0-9]*/environ | wc -l)\"; cat CANARY; bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT && echo reached' 2>&1 | tail -1; echo tried"}},
    {"text": "The greeting is changed. I found no key, no other file and no network.", "delay": 15}]},
  {"match": "forever", "steps": [
    {"text": "This will take a while.", "tool": "SHELL",
     "args": {"description": "takes forever", "command": "trap '' TERM; setsid sleep MARK & (sleep MARK & sleep MARK &) ; nohup sleep MARK & echo started; sleep MARK"}},
    {"text": "never said"}]}
]}`

const (
	demoModel     = "demo-model"
	demoKeyPrefix = "demo-key-"
	demoTimeout   = 4 * time.Minute
	demoEnd       = 30 * time.Second // for gander acp to end by itself
	demoCanary    = "the canary was read"
	demoBefore    = "Hello, world\n"
	demoAfter     = "Hello from inside the sandbox\n"
)

// demo is a run of the demonstration: its directory, the model, and a port that
// nothing in the sandbox may reach.
type demo struct {
	app    *cli.App
	cell   demoCell
	dir    string
	key    string // what the model wants to see, and nothing inside may
	marker string // a sleep time that no other process has marks the demo's
	model  string // the model's address
	port   *trapPort
	show   *stage
}

// showDemo plays the script in every cell, each time in a directory of its own, which
// it removes.
func showDemo(ctx context.Context, a *cli.App, f demoFlags) error {
	cells, err := demoCells(ctx, a, f)
	if err != nil {
		return err
	}
	var errs []error
	for _, cell := range cells {
		fmt.Fprintf(a.Out, "%s\n\n", newStage(a).paint(cli.Bold, cell.String()))
		errs = append(errs, demoIn(ctx, a, cell, f.keep))
		fmt.Fprintln(a.Out)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s\n%s", newStage(a).paint(cli.Bold, "How to go on"), demoNext)
	return nil
}

// demoIn plays the script in one cell.
func demoIn(ctx context.Context, a *cli.App, cell demoCell, keep bool) (err error) {
	ctx, stop := context.WithTimeoutCause(ctx, demoTimeout, fmt.Errorf("the demo did not end within %s; gander doctor shows what is slow or broken", demoTimeout))
	defer stop()
	d := &demo{app: a, cell: cell, key: demoKeyPrefix + rand.Text(), marker: fmt.Sprintf("99%d", time.Now().UnixNano()%1e9), show: newStage(a)}
	if d.dir, err = os.MkdirTemp("", "gander-demo-"); err != nil {
		return fmt.Errorf("making the demo's directory: %w; %s", err, cli.TemporaryAdvice)
	}
	if keep {
		defer func() { fmt.Fprintln(a.Out, "Everything is kept in", d.dir) }()
	} else {
		defer wire.Remove(a, d.dir)
	}
	err = d.run(ctx, keep)
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}

func (d *demo) run(ctx context.Context, keep bool) error {
	if err := d.writeProject(); err != nil {
		return fmt.Errorf("making the demo's project: %w; %s", err, cli.TemporaryAdvice)
	}
	var err error
	if d.port, err = openTrap(); err != nil {
		return err
	}
	defer d.port.close()
	server, err := d.startModel()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	if err := d.play(ctx, keep); err != nil {
		return err
	}
	return d.show.verdict()
}

func (d *demo) project() string { return filepath.Join(d.dir, "project") }

func (d *demo) canary() string { return filepath.Join(d.dir, "private.txt") }

func (d *demo) writeProject() error {
	return errors.Join(
		os.Mkdir(d.project(), 0o755),
		os.WriteFile(filepath.Join(d.project(), "greeting.txt"), []byte(demoBefore), 0o644),
		os.WriteFile(d.canary(), []byte(demoCanary+"\n"), 0o644),
	)
}

func (d *demo) startModel() (*model.Server, error) {
	text := strings.NewReplacer("MARK", d.marker, "PREFIX", demoKeyPrefix, "CANARY", d.canary(), "PORT", d.port.number(), "PROJECT", d.project()).Replace(inWordsOf(d.cell.agent, demoScript))
	script, err := model.ParseScript([]byte(text))
	if err != nil {
		return nil, err
	}
	server := model.New(model.Options{Script: script, Models: []string{demoModel}, Key: d.key, Log: d.app.Log})
	d.model, err = server.Start()
	return server, err
}

// play starts gander as an editor does, talks to it, and looks what is left of it.
func (d *demo) play(ctx context.Context, keep bool) error {
	self, err := cli.Program()
	if err != nil {
		return err
	}
	args := []string{"gander", "acp", "--agent", d.cell.agent, "--sandbox", d.cell.sandbox}
	if keep {
		args = append(args, "--trace", filepath.Join(d.dir, "trace.jsonl"))
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args, cmd.Env, cmd.Stderr = args, d.environ(), d.app.Err
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = in.Close // it clears everything away and ends
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting gander acp: %w", err)
	}
	e := newDemoEditor(d, began)
	conn := acp.DialAgent(pipes{out, in}, e, &acp.Options{Log: d.app.Log})
	err = e.talk(ctx, conn)
	_ = in.Close() // which ends gander acp
	select {
	case <-conn.Done():
	case <-time.After(demoEnd):
	}
	_ = conn.Close()
	ended := cmd.Wait()
	if err != nil {
		return errors.Join(err, ended)
	}
	d.checkEnd(ended)
	return nil
}

// environ is gander's environment as an editor's configuration would set it.
func (d *demo) environ() []string {
	words := make([]string, len(d.cell.command))
	for i, w := range d.cell.command {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	agent := strings.ToUpper(d.cell.agent)
	return append(append([]string{}, d.app.Environ...),
		"GANDER_HOME="+d.home(), "GANDER_LOG_LEVEL=error", "GANDER_"+agent+"_CMD="+strings.Join(words, " "), "LLM_API_KEY="+d.key,
		"LLM_HOST="+d.model, agent+"_LLM_HOST="+d.model, agent+"_MODEL="+demoModel)
}

func (d *demo) home() string { return filepath.Join(d.dir, "home") }

// pipes are a child's stdin and stdout as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) Close() error { return p.in.Close() }

// A trapPort is a port of this machine's loopback that nobody is to reach.
type trapPort struct {
	listener net.Listener
	ended    chan struct{}
	caught   int // valid after close
}

func openTrap() (*trapPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening on this machine's loopback: %w", err)
	}
	t := &trapPort{listener: l, ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.caught++
			_ = c.Close()
		}
	}()
	return t, nil
}

func (t *trapPort) number() string {
	_, port, _ := net.SplitHostPort(t.listener.Addr().String())
	if _, err := strconv.Atoi(port); err != nil {
		return "0"
	}
	return port
}

// close ends the trap and returns how many it has caught. It may be repeated.
func (t *trapPort) close() int {
	_ = t.listener.Close()
	<-t.ended
	return t.caught
}
