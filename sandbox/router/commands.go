package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gander.dev/gander/acp"
	"gander.dev/gander/sessions"
)

// A command is a slash command of gander's own. A prompt whose first text block
// begins with "/" and its name is answered here: the agent does not see it, nor
// what was answered, and it does not count as the session's first prompt.
type command struct {
	name, hint, description string
	// run returns what to say in the thread. An error is said there, too: it is no
	// failure of the protocol. It may send updates by call.s while it works.
	run func(ctx context.Context, call commandCall) (string, error)
	// atOnce has it answered while a turn runs, and not after it.
	atOnce bool
}

// commandCall is a use of a command. No turn of the agent runs meanwhile.
type commandCall struct {
	s    *session
	turn *turn  // its place in the queue
	args string // what follows the name, without space around it
}

// ownCommands are offered in this order, before the agent's own; of two of a name
// gander's counts.
func ownCommands() []command {
	return []command{
		{"status", "", "What answers here, where, with which limits, and what has been asked", commandStatus, false},
		{"agent", "name", "Show or change which agent answers", optionCommand(optionAgent), false},
		{"sandbox", "name", "Show or change where the agent runs", optionCommand(optionSandbox), false},
		{"model", "name", "Show or change the model", optionCommand(optionModel), false},
		{"diff", "all", "What the last turn changed in the project's files, or the whole session", commandDiff, false},
		{"undo", "", "Put back the files that the last turn changed", commandUndo, false},
		{"redo", "", "Change the files again that /undo put back", commandRedo, false},
		{"rewind", "N conversation", "List the turns, or put conversation and files back to before turn N", commandRewind, false},
		{"reset", "", "Have the agent begin anew; the thread stays", commandReset, false},
		{"compact", "", "Have the agent go on with a summary of the older messages", commandCompact, false},
		{"prune", "messages", "Have the agent go on with the last messages only", commandPrune, false},
		{"export", "markdown or json", "Write the thread to a file", commandExport, false},
		{"ports", "open or close, and a port", "Which servers in the sandbox your browser reaches", commandPorts, false},
		{"policy", "", "What the agent does not see and cannot do", commandPolicy, false},
		{"queue", "drop N", "Show the prompts that wait, or take one of them back", commandQueue, true},
		{"now", "text", "End the turn that runs, keep what it has done, and go on with this", commandNow, true},
	}
}

// commandOf is the command that a prompt is; nil when it is for the agent.
func commandOf(prompt []acp.ContentBlock) (*command, string) {
	name, args, ok := slashed(prompt)
	own := ownCommands()
	if i := slices.IndexFunc(own, func(c command) bool { return c.name == name }); ok && i >= 0 {
		return &own[i], args
	}
	return nil, ""
}

// slashed is the word behind the slash that a prompt begins with, and the rest. Only the
// first text counts: what an editor puts into a prompt besides (files, selections)
// may begin with anything.
func slashed(prompt []acp.ContentBlock) (name, args string, ok bool) {
	for _, raw := range prompt {
		c := acp.ParseContentBlock(raw)
		if c.Type != "text" {
			continue
		}
		said, ok := strings.CutPrefix(c.Text, "/")
		if !ok {
			return "", "", false
		}
		if end := strings.IndexFunc(said, unicode.IsSpace); end >= 0 {
			return said[:end], strings.TrimSpace(said[end:]), true
		}
		return said, "", true
	}
	return "", "", false
}

// obey carries out a command as a turn of its own.
func (t *turn) obey() *acp.PromptResponse {
	text, err := t.command.run(t.ctx, commandCall{t.s, t, t.args})
	if err != nil {
		text = fmt.Sprintf("/%s: %s", t.command.name, errorText(err))
	}
	// Who cancels is told nothing, unless it came too late, or something is left to say.
	if text != "" && (t.ctx.Err() == nil || err == nil || !errors.Is(err, context.Canceled)) {
		ctx, done := soonAfter(t.s.ctx, t.ctx, cancelledTime)
		defer done()
		update := acp.MessageChunk(acp.AgentMessageChunk, "gander-"+newID(), strings.TrimRight(text, "\n")+"\n")
		t.s.record(t.id, sessions.Update{Sent: []json.RawMessage{update}})
		t.s.send(ctx, update)
	}
	return &acp.PromptResponse{StopReason: acp.StopEndTurn}
}

// A Command is a prompt that a person gives by its name, "/" in front of it.
type Command struct {
	Name, Hint, Description string
	// Prompt returns what the agent is given for what was written behind the name.
	Prompt func(args string) string
}

// named are the commands that the configuration has.
func (s *session) named() []Command {
	if s.r.opts.Commands == nil {
		return nil
	}
	return s.r.opts.Commands()
}

// expanded is the prompt as the agent is given it: a command's own in the place of its name.
func (t *turn) expanded() []acp.ContentBlock {
	name, args, ok := slashed(t.prompt)
	if !ok {
		return t.prompt
	}
	for _, c := range t.s.named() {
		if c.Name == name {
			i := slices.IndexFunc(t.prompt, func(raw acp.ContentBlock) bool { return acp.ContentType(raw) == "text" })
			prompt := slices.Clone(t.prompt)
			prompt[i] = acp.TextBlock(c.Prompt(args))
			return prompt
		}
	}
	return t.prompt
}

// commandList is the list of all commands: gander's own, those that the configuration has, then
// those that the agent announced last, as it did.
func (s *session) commandList() json.RawMessage {
	var own []acp.AvailableCommand
	var names []string
	for _, c := range ownCommands() {
		own = append(own, acp.AvailableCommand{Name: c.name, Hint: c.hint, Description: c.description})
		names = append(names, c.name)
	}
	for _, c := range s.named() {
		if !slices.Contains(names, c.Name) {
			own = append(own, acp.AvailableCommand{Name: c.Name, Hint: c.Hint, Description: c.Description})
			names = append(names, c.Name)
		}
	}
	s.mu.Lock()
	theirs := s.agentCommands
	s.mu.Unlock()
	all := make([]any, 0, len(own)+len(theirs))
	for _, c := range own {
		all = append(all, c)
	}
	for _, raw := range theirs {
		name := strings.TrimSpace(stringOf(acp.Member(raw, "name"))) // as clients read it
		if name != "" && !slices.Contains(names, name) {
			all = append(all, raw)
		}
	}
	return acp.WithFields(acp.AvailableCommandsUpdate(nil), map[string]any{"availableCommands": all})
}

// maxAnnounced bounds the commands that are kept of an agent, in bytes; gander's own have to
// fit in a frame with them.
const maxAnnounced = 256 << 10

// commandsAnnounced takes the agent's commands from its available_commands_update
// and returns the update with gander's own.
func (s *session) commandsAnnounced(update json.RawMessage) json.RawMessage {
	var u struct {
		AvailableCommands []json.RawMessage `json:"availableCommands"`
	}
	_ = json.Unmarshal(update, &u) // what cannot be read announces none
	theirs, size := u.AvailableCommands, 0
	for i, c := range theirs {
		if size += len(c); size <= maxAnnounced {
			continue
		}
		left := len(theirs) - i
		s.spawn(func() { // tell waits for who calls this
			s.notice("warning", fmt.Sprintf("%d commands of the agent are not offered: all that it has are more than %d bytes.", left, maxAnnounced))
		})
		theirs = slices.Clone(theirs[:i])
		break
	}
	s.mu.Lock()
	s.agentCommands = theirs
	s.mu.Unlock()
	return acp.WithFields(update, map[string]any{"availableCommands": listIn(s.commandList())})
}

// listIn is the list of an available_commands_update.
func listIn(update json.RawMessage) json.RawMessage {
	for key, value := range acp.Members(update) {
		if string(key) == "availableCommands" {
			return value
		}
	}
	return json.RawMessage("[]")
}

// optionCommand shows or sets a config option.
func optionCommand(id string) func(context.Context, commandCall) (string, error) {
	return func(ctx context.Context, call commandCall) (string, error) {
		name, err := call.s.optionNamed(id, call.args)
		if err != nil {
			return "", err
		}
		if name != "" {
			if err := call.s.setOption(ctx, id, name); err != nil {
				return "", err
			}
		}
		return call.s.describeOption(id), nil
	}
}

// optionNamed is the value of an option that a person means by a word: its id, or
// its name, in whatever case; also the end of an id after a slash, as models have.
func (s *session) optionNamed(id, word string) (string, error) {
	o := optionByID(s.current().options, id)
	if o == nil {
		return "", fmt.Errorf("this session has no %s to choose", id)
	}
	if word == "" {
		return "", nil
	}
	var found []string
	for _, v := range optionValues(o) {
		if v.Value == word {
			return v.Value, nil
		}
		if strings.EqualFold(v.Value, word) || strings.EqualFold(v.Name, word) || strings.HasSuffix(v.Value, "/"+word) {
			found = append(found, v.Value)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return word, nil // setting it says what there is
}

func optionByID(options []acp.ConfigOption, id string) *acp.ConfigOption {
	i := slices.IndexFunc(options, func(o acp.ConfigOption) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// maxListed bounds the values that a command lists: goose has models by the hundred.
const maxListed = 40

// describeOption says what an option is and what it can be.
func (s *session) describeOption(id string) string {
	o := optionByID(s.current().options, id)
	if o == nil {
		return ""
	}
	now := currentValue(o)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: **%s**\n", o.Name, now)
	for i, v := range optionValues(o) {
		if i == maxListed {
			fmt.Fprintf(&b, "- … and %d more\n", len(optionValues(o))-maxListed)
			break
		}
		mark := ""
		if v.Value == now {
			mark = " (now)"
		}
		fmt.Fprintf(&b, "- `%s`%s\n", v.Value, mark)
	}
	return b.String()
}

// optionValues are the values of a select option, grouped or not.
func optionValues(o *acp.ConfigOption) []acp.ConfigOptionValue {
	type item struct {
		acp.ConfigOptionValue
		Options []acp.ConfigOptionValue `json:"options"`
	}
	var items []item
	_ = json.Unmarshal(o.Options, &items) // what cannot be read offers nothing
	var out []acp.ConfigOptionValue
	for _, it := range items {
		if len(it.Options) > 0 {
			out = append(out, it.Options...)
		} else {
			out = append(out, it.ConfigOptionValue)
		}
	}
	return out
}
