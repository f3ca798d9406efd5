package bench

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
)

// openSandbox makes a sandbox whose supervisor is bin/gander.
func (b *bench) openSandbox() sandbox.Sandbox {
	b.t.Helper()
	driver := local.New(local.Options{})
	sb, err := driver.Create(b.t.Context(), sandbox.Spec{ID: "bench", WorkingDir: b.mkdir("sandboxed"), Home: b.mkdir("inside")})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sb.Close() })
	return sb
}

// run starts a command in the sandbox, with nothing to read.
func (b *bench) run(sb sandbox.Sandbox, args ...string) sandbox.Process {
	b.t.Helper()
	p, err := sb.Start(b.t.Context(), sandbox.Command{Args: args, Env: []string{"PATH=/usr/bin:/bin"}})
	if err == nil {
		err = p.Stdin().Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// sameStart measures a process from its start until its exit code and all of its
// output are known.
func (b *bench) sameStart() {
	sb := b.openSandbox()
	defer sb.Close()
	var inside, plain samples
	ours := func() {
		begun := time.Now()
		p := b.run(sb, "bash", "-c", "true")
		_, outErr := io.Copy(io.Discard, p.Stdout())
		_, errErr := io.Copy(io.Discard, p.Stderr())
		status, err := p.Wait(b.t.Context())
		inside.took(begun)
		if err := errors.Join(outErr, errErr, err); err != nil || status.Code != 0 {
			b.t.Fatalf("bash in the sandbox: code %d, %v", status.Code, err)
		}
	}
	theirs := func() {
		begun := time.Now()
		_, err := exec.Command("bash", "-c", "true").CombinedOutput()
		plain.took(begun)
		if err != nil {
			b.t.Fatal(err)
		}
	}
	alternate(3, ours, theirs)
	b.table.atMost(3, b.bounded(4, func() pair {
		inside, plain = nil, nil
		alternate(b.rounds(200, 21), ours, theirs)
		return pair{"process start to end in a warm sandbox, beside `bash -c true`", inside, plain, inMS}
	}))
}

// sameKill measures how long it takes until nothing of a process tree is left:
// in a sandbox by KillSince, outside by one signal to its process group.
func (b *bench) sameKill() {
	sb := b.openSandbox()
	defer sb.Close()
	var inside, plain samples
	alternate(b.runs(40), func() { inside.add(b.killSince(sb)) }, func() { plain.add(b.killGroup()) })
	what := fmt.Sprintf("kill → last of %d processes gone, beside `killpg`", treeSize)
	b.table.within(10, pair{what, inside, plain, inMS})
}

func (b *bench) killSince(sb sandbox.Sandbox) float64 {
	b.t.Helper()
	mark, err := sb.Mark(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	tree := newTree()
	p := b.run(sb, "bash", "-c", tree.script)
	b.await(tree)
	begun := time.Now()
	report, err := sb.KillSince(b.t.Context(), mark)
	took := time.Since(begun)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := p.Wait(b.t.Context()); err != nil || report.Killed < treeSize {
		b.t.Fatalf("%d of %d processes were killed, %v", report.Killed, treeSize, err)
	}
	b.none(tree)
	return milliseconds(took)
}

// killGroup knows that the last one is gone when the pipe closes that all hold.
func (b *bench) killGroup() float64 {
	b.t.Helper()
	tree := newTree()
	cmd := exec.Command("bash", "-c", tree.script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	held, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.await(tree)
	begun := time.Now()
	err = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_, readErr := io.Copy(io.Discard, held)
	took := time.Since(begun)
	_ = cmd.Wait() // killed, of course
	if err := errors.Join(err, readErr); err != nil {
		b.t.Fatal(err)
	}
	b.none(tree)
	return milliseconds(took)
}
