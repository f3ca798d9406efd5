package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/rules/ignore"
)

// What is in the files of doctor's project.
const (
	closedText = "the closed file was seen"
	plainText  = "the plain file was seen"
	gitConfig  = "[core]\n\tbare = false\n"
)

// baitProject puts a closed file, another name of it, a protected and a plain file into
// a project.
func baitProject(project string) error {
	err := errors.Join(os.MkdirAll(filepath.Join(project, ".git", "objects"), 0o755), os.Mkdir(filepath.Join(project, ".git", "refs"), 0o755))
	for name, text := range map[string]string{
		ignore.FileName: "doctor-closed\n", "doctor-closed": closedText, "doctor-plain": plainText, ".git/HEAD": "ref: refs/heads/main\n", ".git/config": gitConfig,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(project, name), []byte(text), 0o600))
	}
	return errors.Join(err, os.Link(filepath.Join(project, "doctor-closed"), filepath.Join(project, "doctor-link")))
}

// readings are the ways to a closed file, and commands that go them.
func readings() []struct{ way, command string } {
	return []struct{ way, command string }{
		{"by its name", `cat doctor-closed`},
		{"by a hard link", `cat doctor-link`},
		{"by /proc/self/root", `cat "/proc/self/root$PWD/doctor-closed"`},
	}
}

// closed tries to read a closed file of a project with bait, and to write a protected one.
func (p sandboxTrial) closed(ctx context.Context, id, project string) Check {
	if why := wire.Unkept(runtime.GOOS); why != "" {
		return Check{ID: id, State: checkWarn, What: why}
	}
	var script strings.Builder
	script.WriteString("cat doctor-plain\n")
	for i, r := range readings() {
		fmt.Fprintf(&script, "echo \"%d $(%s)\"\n", i, r.command)
	}
	out, err := p.shell(ctx, script.String()+"echo '# written' >> .git/config; echo tried")
	config, errRead := os.ReadFile(filepath.Join(project, ".git", "config"))
	if err = errors.Join(err, errRead); err == nil && !strings.Contains(out, plainText) {
		err = errors.New("not even a plain file can be read")
	}
	if err != nil {
		return failedCheck(id, fmt.Errorf("could not be tried: %w", err), reportIt)
	}
	var got []string
	for i, r := range readings() {
		if strings.Contains(out, fmt.Sprintf("%d %s", i, closedText)) {
			got = append(got, "a closed file was read "+r.way)
		}
	}
	info, held := p.sb.Info(), "a closed file cannot be read, by its name, a hard link or /proc, nor a protected one (.git/config) written"
	if may, err := p.sb.(sandbox.RuleKeeper).MayWrite(ctx, filepath.Join(project, ".git", "config")); err == nil && may {
		held = "a closed file cannot be read, by its name, a hard link or /proc; your policy lets .git/config be written"
	} else if string(config) != gitConfig {
		got = append(got, "a protected one (.git/config) was written")
	}
	switch open := "does NOT hold in the " + info.Driver + " sandbox: " + strings.Join(got, ", "); {
	case len(got) == 0:
		return Check{ID: id, State: CheckOK, What: "in the " + info.Driver + " sandbox " + held}
	case info.Enforcement.Closed == sandbox.ByKernel: // as the sandbox itself says
		return failedCheck(id, errors.New(open), "do not trust it, and "+reportIt)
	default:
		return Check{ID: id, State: checkWarn, What: open, Next: "see sandbox.start and kernel for the reason"}
	}
}

// examineClosed tries closed files in a sandbox of another driver than the chosen one.
func examineClosed(ctx context.Context, a *cli.App, driver string, labels map[string]string) Check {
	id := checkClosed + "." + driver
	dir, err := os.MkdirTemp("", "gander-doctor-")
	if err != nil {
		return failedCheck(id, err, cli.TemporaryAdvice)
	}
	defer wire.Remove(a, dir)
	if err := baitProject(dir); err != nil {
		return failedCheck(id, err, cli.TemporaryAdvice)
	}
	in, done, err := wire.OpenSandbox(ctx, a, wire.Place{Driver: driver, CWD: dir, Name: "doctor-" + wire.RandomName(), Purpose: "doctor", Labels: labels, Quiet: true})
	if err != nil {
		return Check{ID: id, State: checkSkip, What: cli.MessageOf(err), Next: "nothing, unless you want --sandbox " + driver}
	}
	defer done()
	return sandboxTrial{app: a, sb: in.Sandbox}.closed(ctx, id, dir)
}
