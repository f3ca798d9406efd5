package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
)

// Messages to the model.
type (
	openedMsg struct{ thread *Thread }
	liveMsg   struct {
		tools []string
		rest  string
	}
	thoughtMsg  string
	planMsg     string
	commandsMsg []command
	optionsMsg  []acp.ConfigOption
	askMsg      struct{ q *question }
	withdrawMsg struct{ q *question }
	turnMsg     struct {
		resp *acp.PromptResponse
		err  error
	}
	tickMsg struct{}
)

// A command is a slash command of the session.
type command struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// model holds the part of the screen that is drawn again: below the printed lines.
type model struct {
	ctx   context.Context
	c     *Chat
	open  tea.Cmd
	turns *sync.WaitGroup // of the goroutines that wait for an answer

	thread  *Thread
	input   textarea.Model
	width   int
	options []option

	running   int // turns that have not been answered
	began     time.Time
	cancelled bool // the running turn
	frame     int  // of the sign that something runs
	live      liveMsg
	thought   string
	plan      string
	questions []*question

	commands []command
	chosen   int // among the candidates for what is typed

	earlier []string // prompts
	at      int      // the one that is shown; len(earlier) for the person's own text
	draft   string

	leaving bool // Ctrl-C was pressed once
}

func newModel(ctx context.Context, c *Chat, open tea.Cmd) *model {
	in := textarea.New()
	in.Prompt = "› "
	in.ShowLineNumbers = false
	in.DynamicHeight, in.MinHeight, in.MaxHeight = true, 1, 10
	in.CharLimit = 0
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	if c.o.Plain {
		in.SetStyles(textarea.Styles{})
	}
	in.SetWidth(c.width)
	return &model{ctx: ctx, c: c, open: open, turns: &sync.WaitGroup{}, input: in, width: c.width}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	return tea.Batch(m.input.Focus(), tick(), tea.Sequence(drawn, m.open))
}

// drawn waits until the screen has been drawn for the first time, at 60 frames a second. Lines
// printed before would scroll it as if it filled the terminal, and so be lost.
func drawn() tea.Msg {
	time.Sleep(50 * time.Millisecond)
	return nil
}

func tick() tea.Cmd {
	return tea.Tick(120*time.Millisecond, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case openedMsg:
		m.thread = msg.thread
		m.earlier, m.at = msg.thread.Earlier, len(msg.thread.Earlier)
		m.options = optionsOf(msg.thread.Options)
		return m, func() tea.Msg { m.c.opened(msg.thread); return nil }
	case liveMsg:
		m.live, m.thought = msg, ""
	case thoughtMsg:
		m.thought = tail(m.thought + string(msg))
	case planMsg:
		m.plan = string(msg)
	case commandsMsg:
		m.commands = msg
	case optionsMsg:
		m.options = optionsOf(msg)
	case askMsg:
		m.questions = append(m.questions, msg.q)
	case withdrawMsg:
		m.questions = slices.DeleteFunc(m.questions, func(q *question) bool { return q == msg.q })
	case turnMsg:
		return m, m.finish(msg)
	case tickMsg:
		m.frame++
		return m, tick()
	case tea.KeyPressMsg:
		return m.press(msg)
	default:
		var cmd tea.Cmd
		m.input, cmd = m.input.Update(msg)
		return m, cmd
	}
	return m, nil
}

func (m *model) resize(width, height int) {
	m.width = max(width, leastWidth)
	m.input.SetWidth(m.width)
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.width, m.c.rows = m.width, max((height-linesAtOnce)/2-3, 1)
}

// tail returns the last line of what the agent thinks.
func tail(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (m *model) press(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := msg.String()
	if name == "ctrl+c" {
		return m.interrupt()
	}
	m.leaving = false
	if len(m.questions) > 0 && m.questions[0].press(msg) {
		m.questions = m.questions[1:]
		return m, nil
	}
	if len(m.questions) > 0 {
		return m, nil // typing waits for the answer
	}
	matches := m.matches()
	switch name {
	case "enter":
		return m.enter(matches)
	case "ctrl+d":
		if m.input.Value() == "" {
			return m, tea.Quit
		}
	case "tab":
		if len(matches) > 0 {
			m.complete(matches[m.chosen])
			return m, nil
		}
	case "up", "down":
		if m.move(name == "up", matches) {
			return m, nil
		}
	}
	before := m.input.Value()
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	if m.input.Value() != before {
		m.chosen = 0
	}
	return m, cmd
}

// move goes through the commands that match, or through the prompts before; it reports
// whether the key did one of these.
func (m *model) move(up bool, matches []candidate) bool {
	step := 1
	if up {
		step = -1
	}
	if len(matches) > 0 {
		m.chosen = (m.chosen + step + len(matches)) % len(matches)
		return true
	}
	if up && m.input.Line() > 0 || !up && m.input.Line() < m.input.LineCount()-1 {
		return false // within the text
	}
	next := m.at + step
	if next < 0 || next > len(m.earlier) {
		return true
	}
	if m.at == len(m.earlier) {
		m.draft = m.input.Value()
	}
	m.at = next
	if next == len(m.earlier) {
		m.input.SetValue(m.draft)
	} else {
		m.input.SetValue(m.earlier[next])
	}
	return true
}

// interrupt is Ctrl-C: it cancels the turn, or clears the line; a second time it ends the
// conversation.
func (m *model) interrupt() (tea.Model, tea.Cmd) {
	if m.leaving {
		return m, tea.Quit
	}
	m.leaving = true
	for _, q := range m.questions {
		q.answer <- -1
	}
	m.questions = nil
	if m.running > 0 {
		m.cancelled = true
		conn, id := m.thread.Conn, m.thread.ID
		return m, func() tea.Msg { _ = conn.Cancel(id); return nil } // a connection that is gone ends the turn itself
	}
	m.input.Reset()
	return m, nil
}

// enter sends the text, or completes a command.
func (m *model) enter(matches []candidate) (tea.Model, tea.Cmd) {
	text := strings.TrimSpace(m.input.Value())
	if strings.HasSuffix(text, `\`) { // as in a shell
		m.input.SetValue(strings.TrimSuffix(strings.TrimRight(m.input.Value(), " "), `\`) + "\n")
		return m, nil
	}
	if len(matches) > 0 && strings.TrimSpace(matches[m.chosen].text) != text {
		m.complete(matches[m.chosen])
		return m, nil
	}
	switch {
	case text == "" || m.thread == nil:
		return m, nil
	case text == "/exit" || text == "/quit":
		return m, tea.Quit
	}
	m.input.Reset()
	if cmd, ok := m.choose(text); ok {
		return m, cmd
	}
	if len(m.earlier) == 0 || m.earlier[len(m.earlier)-1] != text {
		m.earlier = append(m.earlier, text)
	}
	m.at = len(m.earlier)
	if m.running == 0 {
		m.began, m.cancelled = time.Now(), false
	}
	m.running++
	m.turns.Add(1)
	return m, m.prompt(text)
}

// prompt sends a prompt and waits for the end of its turn.
func (m *model) prompt(text string) tea.Cmd {
	conn, id := m.thread.Conn, m.thread.ID
	return func() tea.Msg {
		defer m.turns.Done()
		m.c.flush("", m.c.writer.style.as(cli.Bold, "› "+strings.ReplaceAll(ansi.Wrap(cli.Printable(text), m.c.columns()-2, ""), "\n", "\n  ")))
		resp, err := conn.Prompt(m.ctx, &acp.PromptRequest{SessionID: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		m.c.flush()
		return turnMsg{resp, err}
	}
}

// finish notes the end of a turn, and says how it ended unless that is as ever.
func (m *model) finish(t turnMsg) tea.Cmd {
	m.running--
	m.leaving = false
	if m.running == 0 {
		m.live, m.thought, m.plan = liveMsg{}, "", ""
	}
	var line string
	switch {
	case m.ctx.Err() != nil:
		return nil
	case t.err != nil:
		line = m.c.writer.style.as(cli.Red, "✗ ") + cli.Printable(cli.MessageOf(t.err))
	case t.resp.StopReason == acp.StopCancelled:
		line = m.c.writer.style.as(cli.Yellow, "! ") + "cancelled; everything the turn had started is gone"
	case t.resp.StopReason != acp.StopEndTurn:
		line = m.c.writer.style.as(cli.Yellow, "! ") + strings.ReplaceAll(string(t.resp.StopReason), "_", " ")
	default:
		return nil
	}
	line = ansi.Wrap(line, m.width, "")
	return func() tea.Msg { m.c.print(line); return nil }
}

func (m *model) complete(c candidate) {
	m.input.SetValue(c.text)
	m.chosen = 0
}

// View implements tea.Model.
func (m *model) View() tea.View {
	var b strings.Builder
	line := func(s string) { b.WriteString(s); b.WriteByte('\n') }
	s := m.c.writer.style
	if m.live.rest != "" {
		line(m.live.rest)
	}
	if m.thought != "" && m.live.rest == "" {
		line(s.as(cli.Dim, ansi.Truncate("… "+cli.Printable(m.thought), m.width-1, "…")))
	}
	for _, t := range m.live.tools {
		line(s.as(cyan, spinner[m.frame%len(spinner)]) + " " + ansi.Truncate(t, m.width-3, "…"))
	}
	if m.plan != "" {
		line(s.as(cli.Dim, ansi.Truncate(m.plan, m.width-1, "…")))
	}
	if len(m.questions) > 0 {
		line(m.questions[0].view(m.width))
	} else {
		line(m.input.View())
		for _, row := range m.offered(s) {
			line(row)
		}
	}
	b.WriteString(s.as(cli.Dim, ansi.Truncate(m.status(), m.width-1, "…")))
	return tea.NewView(b.String())
}

var spinner = []string{"⠋", "⠙", "⠸", "⠴", "⠦", "⠇"}

// status is the last line: what happens, and who answers.
func (m *model) status() string {
	if m.thread == nil {
		return spinner[m.frame%len(spinner)] + " starting"
	}
	parts := []string{}
	switch {
	case m.leaving && m.running > 0:
		parts = append(parts, "cancelling; Ctrl-C again ends the conversation")
	case m.leaving:
		parts = append(parts, "Ctrl-C again ends the conversation")
	case len(m.questions) > 0:
		parts = append(parts, "waiting for your answer")
	case m.running > 0:
		state := fmt.Sprintf("%s %s, Ctrl-C cancels", spinner[m.frame%len(spinner)], cli.RoundDuration(time.Since(m.began).Truncate(time.Second)))
		if m.running > 1 {
			state += fmt.Sprintf(", %d waiting", m.running-1)
		}
		parts = append(parts, state)
	}
	for _, id := range []string{"agent", "model", "mode", "sandbox"} {
		if v := m.valueOf(id); v != "" {
			parts = append(parts, cli.Printable(v))
		}
	}
	return strings.Join(parts, " · ")
}
