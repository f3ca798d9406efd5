package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"gander.dev/gander/acp"
	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/sandbox/agents/acpagent"
)

// An option is a choice of the session, which /ID shows and /ID VALUE makes.
type option struct {
	id, name, value string
	values          []acp.ConfigOptionValue
}

// optionsOf reads the options that have a list of values.
func optionsOf(options []acp.ConfigOption) []option {
	var out []option
	for i := range options {
		var items []struct {
			acp.ConfigOptionValue
			Options []acp.ConfigOptionValue `json:"options"` // of a group
		}
		if options[i].Type != "select" || json.Unmarshal(options[i].Options, &items) != nil {
			continue
		}
		o := option{id: options[i].ID, name: options[i].Name, value: acpagent.StringValue(&options[i])}
		for _, item := range items {
			if item.Value != "" {
				o.values = append(o.values, item.ConfigOptionValue)
			}
			o.values = append(o.values, item.Options...)
		}
		out = append(out, o)
	}
	return out
}

// valueOf returns the value of an option; empty where the session has no such option.
func (m *model) valueOf(id string) string {
	for _, o := range m.options {
		if o.id == id {
			return o.value
		}
	}
	return ""
}

// candidate is a text that what is typed may become.
type candidate struct{ text, description string }

// matches returns what a slash command that is typed may become: the commands, and behind
// the name of an option its values.
func (m *model) matches() []candidate {
	typed := m.input.Value()
	if !strings.HasPrefix(typed, "/") || strings.Contains(typed, "\n") {
		return nil
	}
	all := []candidate{{"/exit", "end the conversation, which is kept"}}
	for _, o := range m.options {
		all = append(all, candidate{"/" + o.id + " ", o.name + ": " + o.value})
		if strings.HasPrefix(typed, "/"+o.id+" ") {
			all = all[:0]
			for _, v := range o.values {
				all = append(all, candidate{"/" + o.id + " " + v.Value, cli.OneLine(v.Name)})
			}
			break
		}
	}
	for _, c := range m.commands {
		if text := "/" + c.Name; !slices.ContainsFunc(all, func(c candidate) bool { return strings.TrimSpace(c.text) == text }) {
			all = append(all, candidate{text, cli.OneLine(c.Description)})
		}
	}
	found := slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.text, typed) })
	slices.SortStableFunc(found, func(a, b candidate) int { return strings.Compare(a.text, b.text) })
	m.chosen = min(m.chosen, max(len(found)-1, 0))
	return found
}

// mostOffered bounds the candidates that are shown at once.
const mostOffered = 6

// offered shows the candidates for what is typed.
func (m *model) offered(s style) (rows []string) {
	found := m.matches()
	first := max(0, min(m.chosen-mostOffered/2, len(found)-mostOffered))
	for i, c := range found[first:min(len(found), first+mostOffered)] {
		row := ansi.Truncate(fmt.Sprintf("  %-16s %s", cli.Printable(c.text), cli.Printable(c.description)), m.width-1, "…")
		if first+i == m.chosen {
			row = s.as(cli.Bold, "›"+row[1:])
		} else {
			row = s.as(cli.Dim, row)
		}
		rows = append(rows, row)
	}
	return rows
}

// choose handles /ID VALUE for the options of the session; ok is false for any other text.
func (m *model) choose(text string) (cmd tea.Cmd, ok bool) {
	id, value, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	i := slices.IndexFunc(m.options, func(o option) bool { return o.id == id })
	if i < 0 || !strings.HasPrefix(text, "/") {
		return nil, false
	}
	o, conn, session := m.options[i], m.thread.Conn, m.thread.ID
	value = strings.TrimSpace(value)
	return func() tea.Msg {
		if value == "" {
			lines := []string{fmt.Sprintf("%s is %s; /%s VALUE changes it:", o.name, o.value, o.id)}
			for _, v := range o.values {
				lines = append(lines, "  "+v.Value)
			}
			m.c.print(cli.Printable(strings.Join(lines, "\n")))
			return nil
		}
		raw, _ := json.Marshal(value) // a string always encodes
		resp, err := conn.SetConfigOption(m.ctx, &acp.SetConfigOptionRequest{SessionID: session, ConfigID: o.id, Value: raw})
		if err != nil {
			m.c.print(m.c.writer.style.as(cli.Red, "✗ ") + cli.Printable(cli.MessageOf(err)))
			return nil
		}
		m.c.print(m.c.writer.style.as(cli.Dim, cli.Printable(o.name+" is "+value)))
		return optionsMsg(resp.ConfigOptions)
	}, true
}
