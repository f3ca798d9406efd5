package chat

import (
	"fmt"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/show"
)

// A question of the agent's, answered by the number of one of its options or by -1, for none.
type question struct {
	title   string
	options []acp.PermissionOption
	list    *huh.Select[int]
	answer  chan int
}

func newQuestion(title string, options []acp.PermissionOption, s style) *question {
	var rows []huh.Option[int]
	for i := range options {
		rows = append(rows, huh.NewOption(fmt.Sprintf("%s  %s", show.LetterOf(options, i), show.OptionName(&options[i])), i))
	}
	list := huh.NewSelect[int]().Options(rows...)
	keys := huh.NewDefaultKeyMap()
	keys.Select.Up, keys.Select.Down = key.NewBinding(key.WithKeys("up", "k", "shift+tab")), key.NewBinding(key.WithKeys("down", "j", "tab"))
	keys.Select.Filter.SetEnabled(false)
	list.WithKeyMap(keys)
	list.WithTheme(huh.ThemeFunc(func(bool) *huh.Styles {
		marked := lipgloss.NewStyle().Bold(!s.plain)
		return &huh.Styles{Focused: huh.FieldStyles{Title: marked, SelectSelector: marked.SetString("› "), SelectedOption: marked}}
	}))
	list.Focus()
	return &question{title: title, options: options, list: list, answer: make(chan int, 1)}
}

// press takes a key and reports whether it answered.
func (q *question) press(msg tea.KeyPressMsg) bool {
	name := msg.String()
	switch name {
	case "enter":
		if i, ok := q.list.Hovered(); ok {
			return q.take(i)
		}
		return q.take(-1)
	case "esc":
		name = "n"
	}
	if i := show.AnswerOf(name, q.options); i >= 0 {
		return q.take(i)
	}
	q.list.Update(msg)
	return false
}

func (q *question) take(i int) bool {
	q.answer <- i
	return true
}

// view shows the question and its options, each on a line.
func (q *question) view(width int) string {
	q.list.Title(ansi.Truncate("? "+q.title, width-1, "…")).WithWidth(width)
	return q.list.View()
}
