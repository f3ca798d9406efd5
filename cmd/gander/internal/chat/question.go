package chat

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
)

// A question of the agent's, answered by the number of one of its options or by -1, for none.
type question struct {
	title   string
	options []acp.PermissionOption
	chosen  int
	answer  chan int
}

// press takes a key and reports whether it answered.
func (q *question) press(key string) bool {
	switch key {
	case "up", "k", "shift+tab":
		q.chosen = (q.chosen + len(q.options) - 1) % max(len(q.options), 1)
		return false
	case "down", "j", "tab":
		q.chosen = (q.chosen + 1) % max(len(q.options), 1)
		return false
	case "enter":
		return q.take(q.chosen)
	case "esc":
		key = "n"
	}
	if i := show.AnswerOf(key, q.options); i >= 0 {
		return q.take(i)
	}
	return false
}

func (q *question) take(i int) bool {
	if i >= len(q.options) {
		i = -1
	}
	q.answer <- i
	return true
}

// view shows the question and its options, each on a line.
func (q *question) view(s style, width int) string {
	lines := []string{s.as(cli.Bold, ansi.Truncate("? "+q.title, width-1, "…"))}
	for i := range q.options {
		row := ansi.Truncate(fmt.Sprintf("  %s  %s", show.LetterOf(q.options, i), show.OptionName(&q.options[i])), width-1, "…")
		if i == q.chosen {
			row = s.as(cli.Bold, "›"+row[1:])
		}
		lines = append(lines, row)
	}
	return strings.Join(lines, "\n")
}
