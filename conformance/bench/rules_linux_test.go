package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
)

// openerName is this program as one that opens and closes a file: openerName FILE TIMES.
const openerName = "gander-bench-opener"

// opener prints how many nanoseconds an open and a close take.
func opener(file, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	begun := time.Now()
	for range n {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	fmt.Println(int(time.Since(begun)) / n)
	return nil
}

// sameRules measures work in a sandbox whose .gooseignore the kernel keeps, beside
// the same work outside.
func (b *bench) sameRules() {
	b.needPrograms("git", "grep", "tar", "node", "go")
	b.sameOpen()
	repository, files := b.project("repository", 5000, 0), b.project("files", 20000, 0)
	b.makeRepository(repository)
	b.sameWork(bounds{goal: 1.3}, b.runs(60), fmt.Sprintf("`git status`, %d files", b.size(5000)), repository, "git", "status")
	b.sameScript(bounds{goal: 1.3}, b.runs(60), fmt.Sprintf("`git status` by a shell, %d files", b.size(5000)), repository, "git status")
	b.sameScript(bounds{goal: 5, limit: 8}, b.rounds(10, 9), fmt.Sprintf("`grep -r`, %d files", b.size(20000)), files, "grep -r nothing . || true")
	b.sameScript(bounds{goal: 4, limit: 8}, b.rounds(10, 9), fmt.Sprintf("`tar`, %d files", b.size(20000)), files, "tar -c . | cat >/dev/null")
	b.sameScript(bounds{goal: 1.05, limit: 1.5}, b.rounds(9, 3), "`go build`, cold", b.goProject(), "GOCACHE=$PWD/cache GOFLAGS=-buildvcs=false go build -o program . && rm -r cache")
	b.sameWork(bounds{goal: 1.1}, b.runs(60), "start of node", files, "node", "-e", "0")
	b.sameScript(bounds{goal: 1.1}, b.runs(60), "start of node by a shell", files, "node -e 0")
}

func (b *bench) needPrograms(names ...string) {
	b.t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		need(b.t, err == nil, "there is no "+name+" in PATH")
	}
}

// size is how many files a project has, fewer when only the measuring is tried.
func (b *bench) size(full int) int {
	if b.full {
		return full
	}
	return full / 20
}

// project makes a directory with small files, some of which are ignored.
func (b *bench) project(name string, files, ignored int) string {
	b.t.Helper()
	dir := b.mkdir(name)
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	write(".gooseignore", ".env\n*.pem\n!public.pem\nsecrets/\n")
	for i := range b.size(files) {
		write(fmt.Sprintf("part%d/package%d/file%d.txt", i%10, i%100, i), strings.Repeat("a line of text\n", 20))
	}
	for i := range ignored {
		write(fmt.Sprintf("part%d/key%d.pem", i%10, i), "secret\n")
	}
	return dir
}

// makeRepository makes a directory a repository with everything in it committed.
func (b *bench) makeRepository(dir string) {
	b.t.Helper()
	script := "git init -q && git add -A && git -c user.name=bench -c user.email=bench@example.invalid commit -qm everything"
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
}

func (b *bench) goProject() string {
	b.t.Helper()
	dir := b.project("program", 0, 0)
	for name, text := range map[string]string{
		"go.mod":  "module example.invalid/program\n\ngo 1.25\n",
		"main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// ruled makes a sandbox of a directory in which its .gooseignore counts.
func (b *bench) ruled(dir string, mounts ...sandbox.Mount) sandbox.Sandbox {
	b.t.Helper()
	return b.local(dir, &sandbox.Rules{}, mounts...)
}

// local makes a sandbox of a directory. Without rules no call of what runs in it is
// asked about.
func (b *bench) local(dir string, rules *sandbox.Rules, mounts ...sandbox.Mount) sandbox.Sandbox {
	b.t.Helper()
	driver := local.New(local.Options{})
	sb, err := driver.Create(b.t.Context(), sandbox.Spec{
		ID: "bench-" + strings.ToLower(rand.Text()), WorkingDir: dir, Home: b.mkdir("inside"), Rules: rules, Mounts: mounts,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sb.Close() })
	return sb
}

// inside runs a command in a sandbox and returns what it printed.
func (b *bench) inside(sb sandbox.Sandbox, args ...string) string {
	b.t.Helper()
	p, err := sb.Start(b.t.Context(), sandbox.Command{Args: args, Env: b.workEnv(), NullStdin: true})
	if err != nil {
		b.t.Fatal(err)
	}
	out, outErr := io.ReadAll(p.Stdout())
	said, errErr := io.ReadAll(p.Stderr())
	status, err := p.Wait(b.t.Context())
	if err := errors.Join(outErr, errErr, err); err != nil || status.Code != 0 {
		b.t.Fatalf("%q in the sandbox: code %d, %v: %s", args, status.Code, err, said)
	}
	return string(out)
}

// outside runs it beside the sandbox.
func (b *bench) outside(dir string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, b.workEnv()
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%q: %v", args, err)
	}
	return string(out)
}

func (b *bench) workEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=/tmp"}
}

// bounds are what a row should be and, where it has a limit, what it must be.
type bounds struct{ goal, limit float64 }

// sameScript measures a shell's script, with the shell's own start, in a directory.
func (b *bench) sameScript(to bounds, n int, what, dir, script string) {
	b.t.Helper()
	b.sameWork(to, n, what, dir, "bash", "-c", script)
}

// sameWork measures a command in a directory n times.
func (b *bench) sameWork(to bounds, n int, what, dir string, args ...string) {
	b.t.Helper()
	sb := b.ruled(dir)
	defer sb.Close()
	var inside, plain samples
	ours := func() {
		begun := time.Now()
		b.inside(sb, args...)
		inside.took(begun)
	}
	theirs := func() {
		begun := time.Now()
		b.outside(dir, args...)
		plain.took(begun)
	}
	alternate(1, ours, theirs)
	measure := func() pair {
		inside, plain = nil, nil
		alternate(n, ours, theirs)
		return pair{what + ", under ignore rules, beside the same outside", inside, plain, inMS}
	}
	if to.limit == 0 {
		b.table.atMost(to.goal, measure())
		return
	}
	b.table.atMost(to.goal, b.bounded(to.limit, measure))
}

// sameOpen measures what the rules cost where nothing else is done.
func (b *bench) sameOpen() {
	dir, program := b.project("opened", 20, 0), b.program(openerName)
	sb := b.ruled(dir, sandbox.Mount{Path: program})
	defer sb.Close()
	args := []string{program, filepath.Join(dir, ".gooseignore"), strconv.Itoa(b.size(40000))}
	read := func(s *samples, out string) {
		ns, err := strconv.Atoi(strings.TrimSpace(out))
		if err != nil {
			b.t.Fatal(err)
		}
		s.add(milliseconds(time.Duration(ns)))
	}
	b.table.atMost(9.5, b.bounded(14, func() pair {
		var inside, plain samples
		alternate(b.rounds(10, 9),
			func() { read(&inside, b.inside(sb, args...)) },
			func() { read(&plain, b.outside(dir, args...)) })
		return pair{"open and close a file, under ignore rules, beside the same outside", inside, plain, inUS}
	}))
}

// timed adds how long f takes.
func timed(s *samples, f func()) func() {
	return func() {
		begun := time.Now()
		f()
		s.took(begun)
	}
}

// sameMasks measures short commands beside bubblewrap with a mask over each ignored file.
func (b *bench) sameMasks() {
	b.needPrograms("bwrap")
	hundred := b.project("hundred", 200, 100)
	masks := maskArgs(hundred, 100)
	sb, unruled := b.ruled(hundred), b.local(hundred, nil)
	defer sb.Close()
	defer unruled.Close()
	var masked samples
	warm := b.bounded(4, func() pair {
		var inside, plain samples
		masked = nil
		alternate(b.rounds(100, 21),
			timed(&inside, func() { b.inside(sb, "bash", "-c", "true") }),
			timed(&plain, func() { b.outside(hundred, "bash", "-c", "true") }),
			timed(&masked, func() { b.outside(hundred, append(masks, "bash", "-c", "true")...) }))
		return pair{"`true` in a warm sandbox with 100 ignored files, beside plain `bash -c true`", inside, plain, inMS}
	})
	b.table.atMost(3, warm)
	b.table.atMost(1, pair{"the same beside `bwrap` with 100 masks", warm.ours, masked, inMS})

	b.table.atMost(2, b.bounded(2, func() pair {
		var kept, free samples
		alternate(b.rounds(100, 21),
			timed(&kept, func() { b.inside(sb, "true") }),
			timed(&free, func() { b.inside(unruled, "true") }))
		return pair{"`true` in a warm sandbox with 100 ignored files, beside a warm sandbox without rules", kept, free, inMS}
	}))
}

// sameSetup measures the making of a sandbox with many ignored files, up to the end of a
// first command: bubblewrap cannot do without one, and gander's may answer before all of it
// is ready.
func (b *bench) sameSetup() {
	b.needPrograms("bwrap")
	thousand, none := b.project("thousand", 200, 1000), b.project("none", 200, 0)
	masks := maskArgs(thousand, 1000)
	use := func(dir string) func() {
		return func() {
			sb := b.ruled(dir)
			b.inside(sb, "true")
			_ = sb.Close()
		}
	}
	var made, used, without, masked samples
	// Masks are mounts, which say nothing of how long this machine takes to start processes;
	// gander's time is mostly that, and so is bubblewrap's without them.
	started := b.bounded(6, func() pair {
		var unmasked samples
		made, used, without, masked = nil, nil, nil, nil
		alternate(b.rounds(20, 3),
			timed(&made, func() { _ = b.ruled(thousand).Close() }),
			timed(&used, use(thousand)),
			timed(&without, use(none)),
			timed(&masked, func() { b.outside(thousand, append(masks, "true")...) }),
			timed(&unmasked, func() { b.outside(none, append(maskArgs(none, 0), "true")...) }))
		return pair{"the same beside `bwrap` without masks", used, unmasked, inMS}
	})
	b.table.atMost(0.02, pair{"set-up with 1,000 ignored files and a first `true`, beside `bwrap` with 1,000 masks and `true`", used, masked, inMS})
	b.table.tell(started)
	b.table.within(0.02*masked.minus(started.theirs).median(), pair{"the same beside a sandbox without ignored files; the goal is 0.02 of what the masks cost", used, without, inMS})
	b.table.say("a sandbox with 1,000 ignored files made and ended, without a command", made, inMS)
}

// sameExec measures a short command under ignore rules beside docker exec.
func (b *bench) sameExec() {
	hundred := b.project("execed", 200, 100)
	sb, id := b.ruled(hundred), b.plainContainer()
	defer sb.Close()
	b.table.atMost(0.2, b.bounded(0.2, func() pair {
		var inside, plain samples
		alternate(b.rounds(30, 9),
			timed(&inside, func() { b.inside(sb, "bash", "-c", "true") }),
			timed(&plain, func() { b.outside(hundred, "docker", "exec", id, "bash", "-c", "true") }))
		return pair{"`true` in a warm sandbox with 100 ignored files, beside `docker exec`", inside, plain, inMS}
	}))
}

// maskArgs is bubblewrap with nothing in the ignored files of project.
func maskArgs(dir string, ignored int) []string {
	args := []string{"bwrap", "--unshare-all", "--die-with-parent", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for i := range ignored {
		args = append(args, "--ro-bind", "/dev/null", filepath.Join(dir, fmt.Sprintf("part%d/key%d.pem", i%10, i)))
	}
	return args
}
