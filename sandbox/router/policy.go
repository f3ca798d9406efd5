package router

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/ignore"
	"gander.dev/gander/sandbox/rules/policy"
)

// check does, before a turn, for what has come to the sandbox since the last, what the
// policy says.
func (b *backend) check(ctx context.Context) error {
	said, err := b.place.Check(ctx)
	for _, text := range said {
		b.s.notice("warning", text)
	}
	return err
}

// sayPolicy tells the person, before the first prompt, what the agent does not see
// and cannot do.
func (b *backend) sayPolicy() {
	if !b.place.Examined.Surveyed() {
		return
	}
	if n := inOne(b.policyNotices(false)); n.text != "" {
		b.s.notice(n.severity, n.text)
	}
}

// inOne returns notices in one, as serious as the most serious of them; it is empty without any.
func inOne(notices []notice) notice {
	one := notice{severity: "info"}
	var said []string
	for _, n := range notices {
		said = append(said, n.text)
		if n.severity == "warning" {
			one.severity = n.severity
		}
	}
	one.text = strings.Join(said, " ")
	return one
}

// policyNotices returns what the agent does not see and cannot do: all of it, or only what
// differs from the default policy in an empty project. There is a survey.
func (b *backend) policyNotices(all bool) []notice {
	var holds []string
	if all || b.place.Policy.Network.Open() {
		holds = append(holds, b.sayNetwork())
	}
	if closed := b.place.Examined.SayClosed(); all || closed != "" {
		holds = append(holds, cmp.Or(closed, "no file of the project is closed"))
	}
	if w := b.place.Policy.Writes; b.reads {
		holds = append(holds, "the project can only be read (access: read)")
	} else if all || len(w.Protect) > 0 || !slices.Equal(w.Groups(), policy.Default().Writes.Groups()) {
		holds = append(holds, b.sayProtected()+" cannot be written")
	}
	var notices []notice
	if len(holds) > 0 {
		notices = append(notices, notice{"info", fmt.Sprintf("In this %s sandbox %s. gander policy show prints all of it.", b.driver.Name(), strings.Join(holds, "; "))})
	}
	for _, text := range b.place.Examined.GitNotices() {
		notices = append(notices, notice{"warning", text})
	}
	for _, text := range b.place.Policy.SayPlace() {
		notices = append(notices, notice{"info", text})
	}
	if b.place.Policy.Settings.Unsigned {
		notices = append(notices, notice{"info", gitconfig.SayUnsigned})
	}
	if n := len(b.place.Policy.Refused); n > 0 {
		notices = append(notices, notice{"warning", fmt.Sprintf("The project's .gander.json asks for more than you allow and does not get it: %s. See gander policy check; gander policy trust grants it.",
			confine.SomeOf(requests(b.place.Policy.Refused), n))})
	}
	return notices
}

func (b *backend) sayNetwork() string {
	n := b.place.Policy.Network
	if !n.Open() {
		return "nothing but the model can be reached"
	}
	hosts := append(append([]string{}, n.Presets...), n.Allow...)
	text := "the hosts of the policy can be reached besides the model (" + confine.SomeOf(hosts, len(hosts)) + ")"
	if len(hosts) == 0 {
		text = "you are asked about every host but the model"
	}
	return text
}

// sayProtected names the groups of files that are protected, and those of the person's.
func (b *backend) sayProtected() string {
	words := map[string]string{
		"git": "git's configuration and hooks", "hooks": "hook managers'", "editor": "editors'", "agent": "agents'", "shell": "shells' files", "ci": "CI files",
	}
	var names []string
	for _, g := range b.place.Policy.Writes.Groups() {
		names = append(names, words[g])
	}
	for _, p := range b.place.Policy.Writes.Protect {
		if !strings.HasPrefix(p, "@") {
			names = append(names, confine.Printable(p))
		}
	}
	if len(names) == 0 {
		return "only .gander.json and .gooseignore"
	}
	return strings.Join(names, ", ")
}

func requests(rs []policy.Request) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Key+": "+r.Value)
	}
	return out
}

// shown is a path as the person is told of it, unless it has a secret in it.
func (b *backend) shown(path string) (name string, ok bool) {
	if b.s.leaks.Check(leakSaid, []byte(path)) != nil {
		return "", false
	}
	if rel, err := filepath.Rel(b.s.cwd, path); err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	return confine.Printable(path), true
}

// denied tells the person why a program inside was refused a file.
func (b *backend) denied(d sandbox.Denial) {
	path := d.Path
	name, ok := b.shown(path)
	if !ok {
		return
	}
	text := fmt.Sprintf("%s is closed by %s: %s or a command of it was refused access (%s).", name, cmp.Or(d.By, ignore.FileName), b.agent.Name(), d.Operation)
	switch {
	case d.Rule == sandbox.HiddenByGit:
		text = sandbox.SayHidden
	case d.Rule == sandbox.DeniedUnheard:
		text = fmt.Sprintf("%s is a socket at which nobody in the sandbox listens: %s or a command of it was refused (%s). Programs outside are not reached by sockets.", name, b.agent.Name(), d.Operation)
	case d.Rule == sandbox.DeniedByGit:
		text = fmt.Sprintf("%s may keep content of closed files, and policy.git is \"hide\": git was refused it (%s). What git says then is that objects are missing or cannot be read; the repository is whole, and works outside of the sandbox. What came from outside is looked at before the next prompt.", name, d.Operation)
	case d.Setting != "":
		text = fmt.Sprintf("%s cannot be changed: %s. %s or a command of it was refused (%s). %s in gander's config.json allows it.", name, d.Why, b.agent.Name(), d.Operation, d.Setting)
	case d.Allow != "":
		text = fmt.Sprintf("%s is protected (%s: %s): %s or a command of it was refused (%s). To allow it, add %q to policy.writes.allow in gander's config.json.", name, d.Rule, d.Why, b.agent.Name(), d.Operation, d.Allow)
	case d.Rule != "" || filepath.Base(path) == ignore.FileName:
		text = fmt.Sprintf("%s cannot be changed from inside the sandbox: %s or a command of it was refused (%s).", name, b.agent.Name(), d.Operation)
	}
	b.s.work.Go(func() { b.s.notice("warning", text) }) // the backend runs, so nobody waits for work yet
}
