package local_test

import (
	"io"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// The benchmarks measure side by side with the plain way and report the medians
// and their ratio, because the machine's speed changes.

func benchSandbox(b testing.TB) sandbox.Sandbox {
	b.Helper()
	sb, err := newBench().Create(b.Context(), sandbox.Spec{ID: "bench", WorkingDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sb.Close() })
	return sb
}

func report(b *testing.B, ours, plain []time.Duration) {
	slices.Sort(ours)
	slices.Sort(plain)
	o, p := ours[len(ours)/2], plain[len(plain)/2]
	b.ReportMetric(float64(o.Microseconds()), "µs/ours")
	b.ReportMetric(float64(p.Microseconds()), "µs/plain")
	b.ReportMetric(float64(o)/float64(p), "ratio")
}

// BenchmarkStart runs bash -c true to its end, in a warm sandbox and plainly.
func BenchmarkStart(b *testing.B) {
	sb := benchSandbox(b)
	var ours, plain []time.Duration
	for b.Loop() {
		begin := time.Now()
		p, err := sb.Start(b.Context(), sandbox.Command{Args: []string{"bash", "-c", "true"}, Env: sandboxtest.Env()})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(begin))
		begin = time.Now()
		if err := exec.CommandContext(b.Context(), "bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
	}
	report(b, ours, plain)
}

const throughputSize = 256 << 20

// BenchmarkThroughput sends data through cat in a sandbox, and through two cats.
func BenchmarkThroughput(b *testing.B) {
	sb := benchSandbox(b)
	var ours, plain []time.Duration
	for b.Loop() {
		begin := time.Now()
		p, err := sb.Start(b.Context(), sandbox.Command{Args: []string{"cat"}, Env: sandboxtest.Env()})
		if err != nil {
			b.Fatal(err)
		}
		ours = append(ours, pump(b, begin, p.Stdin(), p.Stdout()))
		begin = time.Now()
		cmd := exec.CommandContext(b.Context(), "sh", "-c", "cat | cat")
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, pump(b, begin, in, out))
		_ = cmd.Wait()
	}
	report(b, ours, plain)
	b.ReportMetric(throughputSize/1e6/ours[len(ours)/2].Seconds(), "MB/s")
}

func pump(b *testing.B, begin time.Time, in io.WriteCloser, out io.Reader) time.Duration {
	b.Helper()
	go func() {
		chunk := make([]byte, 64<<10)
		for range throughputSize / len(chunk) {
			_, _ = in.Write(chunk)
		}
		_ = in.Close()
	}()
	buf := make([]byte, 64<<10)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, buf)
	if n != throughputSize || err != nil {
		b.Fatalf("%d bytes: %v", n, err)
	}
	return time.Since(begin)
}

const treeScript = "for i in 1 2 3 4 5; do sleep 1000 & done; echo ready; wait"

// BenchmarkKill kills a command and its five children: KillSince, and killpg with
// a wait for the pipe's end.
func BenchmarkKill(b *testing.B) {
	sb := benchSandbox(b)
	var ours, plain []time.Duration
	ready := make([]byte, 6)
	for b.Loop() {
		m, err := sb.Mark(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		p, err := sb.Start(b.Context(), sandbox.Command{Args: []string{"bash", "-c", treeScript}, Env: sandboxtest.Env()})
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.ReadFull(p.Stdout(), ready)
		begin := time.Now()
		if _, err := sb.KillSince(b.Context(), m); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(begin))

		cmd := exec.CommandContext(b.Context(), "bash", "-c", treeScript)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		_, _ = io.ReadFull(out, ready)
		begin = time.Now()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_, _ = io.Copy(io.Discard, out) // the last of them has ended
		plain = append(plain, time.Since(begin))
		_ = cmd.Wait()
	}
	report(b, ours, plain)
}

// BenchmarkCreate makes and closes a sandbox.
func BenchmarkCreate(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		sb, err := newBench().Create(b.Context(), sandbox.Spec{ID: "bench", WorkingDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		_ = sb.Close()
	}
}

func newBench() *local.Driver { return local.New(local.Options{}) }
