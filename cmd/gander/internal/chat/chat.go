// Package chat is a conversation on a terminal: an ACP client with a line to type in, the
// answer as it comes, and the agent's questions.
//
// Finished lines are printed once, above the input, and stay in the terminal's own
// scrollback; only what still changes (running tools, a question, the line itself) is drawn again.
package chat

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"gander.dev/gander/acp"
)

// Options say how a conversation is shown.
type Options struct {
	In      io.Reader
	Out     io.Writer
	Environ []string
	// Plain leaves colours out.
	Plain bool
	// Hide takes secrets out of text that is shown.
	Hide func(string) string
	// Width is the number of columns at the start.
	Width int
}

// Chat is the client of a conversation. Its program is on the screen while Run runs.
type Chat struct {
	o       Options
	program *tea.Program

	// mu guards what follows.
	mu     sync.Mutex
	width  int
	rows   int // the most that the unfinished block of an answer takes
	writer writer
	tools  map[string]*tool
	order  []string // the running tools, in the order of their start
}

// New returns a chat that is not on the screen yet.
func New(o Options) *Chat {
	return &Chat{o: o, width: max(o.Width, leastWidth), rows: 6, writer: writer{style: style{o.Plain}, hide: o.Hide}, tools: map[string]*tool{}}
}

// leastWidth is the number of columns below which text is no longer wrapped narrower.
const leastWidth = 20

// Thread is a session that is open.
type Thread struct {
	Conn *acp.AgentConn
	ID   acp.SessionID
	// Header are the lines before the first prompt.
	Header []string
	// Earlier are the person's messages so far, Answer is the answer to the last of them.
	Earlier []string
	Answer  string
	// Options are the session's options, for the status line.
	Options []acp.ConfigOption
}

// Run shows a chat until the person ends it. Open is called once the screen is there; what
// the agent asks while it opens the session is shown. Run returns when the conversation is
// over, with the error of open or of the screen.
func (c *Chat) Run(ctx context.Context, open func(context.Context) (*Thread, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	m := newModel(ctx, c, func() tea.Msg {
		thread, err := open(ctx)
		if err != nil {
			failed = err
			return tea.QuitMsg{}
		}
		return openedMsg{thread}
	})
	environ := c.o.Environ
	if c.o.Plain {
		environ = append(environ[:len(environ):len(environ)], "NO_COLOR=1")
	}
	c.program = tea.NewProgram(m, tea.WithInput(c.o.In), tea.WithOutput(c.o.Out), tea.WithEnvironment(environ), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, c.program.Quit)
	defer stop()
	_, err := c.program.Run()
	cancel()
	m.turns.Wait()
	return errors.Join(failed, err)
}

// Write implements io.Writer for a log: each record is a line above the prompt.
func (c *Chat) Write(b []byte) (int, error) {
	c.print(string(b))
	return len(b), nil
}

// linesAtOnce bounds what is put above the screen at a time, as a terminal may be low.
const linesAtOnce = 8

// print puts lines above what still changes.
func (c *Chat) print(text string) {
	lines := strings.Split(strings.TrimSuffix(c.o.Hide(text), "\n"), "\n")
	for some := range slices.Chunk(lines, linesAtOnce) {
		text := strings.Join(some, "\n")
		if text == "" {
			text = " " // nothing is not a line to the screen
		}
		c.program.Send(tea.Println(text)())
	}
}
