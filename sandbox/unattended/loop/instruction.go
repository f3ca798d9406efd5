package loop

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// sectionLimit bounds each section of an instruction, in bytes. The end is kept: what
// was written last counts.
const sectionLimit = 16 << 10

// TasksFile is where the agent is told to keep longer lists of what is to be done, in the
// workspace. A person can begin it.
const TasksFile = ".tasks.md"

// The other files by which the agent and the loop talk, in the workspace.
const (
	memoryFile = ".memory.md"
	doneFile   = ".done"
)

// instruction is what one iteration of the agent is given.
type instruction struct {
	identity  string
	memory    string
	tasks     string
	prompt    string
	previous  string // the prompt of the iteration before
	messages  []string
	iteration int64
	workspace string
}

func (in instruction) String() string {
	var b strings.Builder
	identity := strings.TrimSpace(in.identity)
	if !strings.HasPrefix(identity, "# Identity") {
		identity = "# Identity\n\n" + identity
	}
	section(&b, "", identity)
	memory := in.memory
	if strings.TrimSpace(memory) == "" {
		memory = "There is none: this is a fresh start."
	}
	section(&b, "# Memory (from previous iteration)", memory)
	if strings.TrimSpace(in.tasks) != "" {
		section(&b, "# Tasks", in.tasks)
	}
	if strings.TrimSpace(in.prompt) == "" {
		section(&b, "# Mode: Self-Bootstrap", selfBootstrap)
	} else {
		section(&b, "# Current Prompt", in.prompt)
	}
	if in.previous != "" && in.previous != in.prompt {
		section(&b, "# Notice: Prompt Changed", changed(in.previous, in.prompt))
	}
	if len(in.messages) > 0 {
		section(&b, "# Message from the Operator", strings.Join(in.messages, "\n\n"))
	}
	section(&b, "# Rules", in.rules())
	return b.String()
}

const selfBootstrap = "Nobody has given you an objective. Look at your memory and at the workspace, choose something useful and small enough to finish, and do it."

func changed(previous, prompt string) string {
	if strings.TrimSpace(prompt) == "" {
		prompt = "(none: choose for yourself)"
	}
	half := sectionLimit/2 - 200
	return "The prompt is another one than in the iteration before. Go by the new one.\n\n## Before\n\n" + tail(previous, half) + "\n\n## Now\n\n" + tail(prompt, half)
}

func (in instruction) rules() string {
	rules := fmt.Sprintf(`- This is iteration %d. The workspace is %s.
- You have this iteration only: work on one thing, check it, and end. What you start ends with it.
- As your last action write %s in the workspace: what was done, how things stand, what comes next. It is the only thing you know in the next iteration. Under 300 words, instead of what it said before.
- Longer lists of what is to be done belong into %s; mark there what is done.`, in.iteration, in.workspace, memoryFile, TasksFile)
	if strings.TrimSpace(in.prompt) != "" {
		rules += fmt.Sprintf("\n- When all that the prompt asks for is done and checked, and only then, write the file %s in the workspace, with one sentence that says what was reached. No iteration follows.", doneFile)
	}
	return rules
}

func section(b *strings.Builder, heading, text string) {
	if heading != "" {
		b.WriteString(heading + "\n\n")
	}
	b.WriteString(tail(strings.TrimSpace(text), sectionLimit) + "\n\n")
}

// tail is the end of a text, whole characters, and says what is left out.
func tail(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	from := len(text) - limit
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return fmt.Sprintf("[the first %d bytes are left out]\n%s", from, text[from:])
}
