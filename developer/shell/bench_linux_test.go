package shell_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/developer/shell"
)

// The benchmarks run ours and the plain way in turns and report both, because the
// machine's speed changes.

func sortedAt(list []time.Duration, share float64) float64 {
	slices.Sort(list)
	return float64(list[min(len(list)-1, int(share*float64(len(list))))].Microseconds()) / 1000
}

func report(b *testing.B, ours, plain []time.Duration) {
	b.ReportMetric(sortedAt(ours, 0.5), "ms-ours")
	b.ReportMetric(sortedAt(plain, 0.5), "ms-plain")
	b.ReportMetric(sortedAt(ours, 0.99), "ms-ours-p99")
	b.ReportMetric(sortedAt(plain, 0.99), "ms-plain-p99")
}

func benchRunner(b *testing.B) *shell.Runner {
	r := newRunner(b, shell.Options{Log: quiet})
	for range 5 {
		run(b, r, shell.Command{Line: "true"})
	}
	b.ResetTimer()
	return r
}

// BenchmarkTrue runs true, through the Runner and by fork and exec of bash -c true.
func BenchmarkTrue(b *testing.B) {
	r := benchRunner(b)
	var ours, plain []time.Duration
	for b.Loop() {
		begin := time.Now()
		run(b, r, shell.Command{Line: "true", Output: func(string, string) {}})
		ours = append(ours, time.Since(begin))
		begin = time.Now()
		if err := exec.CommandContext(b.Context(), "bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
	}
	report(b, ours, plain)
}

// BenchmarkTrueKept runs true where the kernel keeps rules, and where none are.
func BenchmarkTrueKept(b *testing.B) {
	dir := b.TempDir()
	kept := newRunner(b, shell.Options{Log: quiet, WorkingDir: dir, KeepRules: true})
	free := newRunner(b, shell.Options{Log: quiet, WorkingDir: dir})
	for range 5 {
		run(b, kept, shell.Command{Line: "true"})
		run(b, free, shell.Command{Line: "true"})
	}
	var with, without []time.Duration
	for b.Loop() {
		begin := time.Now()
		run(b, kept, shell.Command{Line: "true"})
		with = append(with, time.Since(begin))
		begin = time.Now()
		run(b, free, shell.Command{Line: "true"})
		without = append(without, time.Since(begin))
	}
	b.ReportMetric(sortedAt(with, 0.5), "ms-with-rules")
	b.ReportMetric(sortedAt(without, 0.5), "ms-without")
}

// BenchmarkWorkKept does work on many files where the kernel keeps rules, and where none are.
func BenchmarkWorkKept(b *testing.B) {
	dir := b.TempDir()
	files := map[string]string{".gooseignore": ".env\n*.pem\n", "go.mod": "module example.com/x\n", "main.go": "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\"\", nil) }\n"}
	for i := range 20_000 {
		files["part"+itoa(i%10)+"/package"+itoa(i%100)+"/file"+itoa(i)+".txt"] = strings.Repeat("a line of text\n", 20)
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	variables := append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"), "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local")
	kept := newRunner(b, shell.Options{Log: quiet, WorkingDir: dir, Env: variables, KeepRules: true})
	free := newRunner(b, shell.Options{Log: quiet, WorkingDir: dir, Env: variables})
	for name, line := range map[string]string{
		"grep":    "grep -r nothing part* || true",
		"tar":     "tar -c part* | cat >/dev/null",
		"gobuild": "go build -o program . && rm -r cache",
	} {
		b.Run(name, func(b *testing.B) {
			var with, without []time.Duration
			for b.Loop() {
				for _, r := range []*shell.Runner{kept, free} {
					begin := time.Now()
					if res := run(b, r, shell.Command{Line: line}); res.Code != 0 {
						b.Fatal(res.Merged.Shown)
					}
					if took := time.Since(begin); r == kept {
						with = append(with, took)
					} else {
						without = append(without, took)
					}
				}
			}
			b.ReportMetric(sortedAt(with, 0.5), "ms-with-rules")
			b.ReportMetric(sortedAt(without, 0.5), "ms-without")
			b.ReportMetric(sortedAt(with, 0.5)/sortedAt(without, 0.5), "ratio")
		})
	}
}

// BenchmarkFirstKept runs the first command of a Runner that keeps rules, a moment after Warm
// and without it.
func BenchmarkFirstKept(b *testing.B) {
	var warm, cold []time.Duration
	for b.Loop() {
		for _, ahead := range []bool{true, false} {
			r := newRunner(b, shell.Options{Log: quiet, WorkingDir: b.TempDir(), KeepRules: true})
			if ahead {
				r.Warm()
				time.Sleep(300 * time.Millisecond) // a model thinks longer
			}
			begin := time.Now()
			run(b, r, shell.Command{Line: "true"})
			if took := time.Since(begin); ahead {
				warm = append(warm, took)
			} else {
				cold = append(cold, took)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(sortedAt(warm, 0.5), "ms-warm")
	b.ReportMetric(sortedAt(cold, 0.5), "ms-cold")
}

const benchTree = "for i in 1 2 3 4 5; do sleep 600 & done; echo ready; wait"

// BenchmarkCancel cancels a shell with five children, and kills the same by killpg and
// waits until the last has ended.
func BenchmarkCancel(b *testing.B) { benchCancel(b, benchTree) }

// BenchmarkCancelEscaping does so with a tree that killpg does not reach: ours takes
// the daemons too, the plain way only the group.
func BenchmarkCancelEscaping(b *testing.B) {
	benchCancel(b, "setsid sleep 600 </dev/null >/dev/null 2>&1 & (trap '' TERM; sleep 600) & (setsid bash -c 'trap \"\" TERM; sleep 600' </dev/null >/dev/null 2>&1 &); echo ready; sleep 600")
}

func benchCancel(b *testing.B, line string) {
	r := benchRunner(b)
	var ours, plain []time.Duration
	for b.Loop() {
		ours = append(ours, cancelTree(b, r, line))
		plain = append(plain, killGroup(b, line))
	}
	report(b, ours, plain)
}

func cancelTree(b *testing.B, r *shell.Runner, line string) time.Duration {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ready, done := make(chan struct{}), make(chan struct{})
	var once sync.Once // a dying shell may speak too
	go func() {
		_, _ = r.Run(ctx, shell.Command{Line: line, Output: func(string, string) { once.Do(func() { close(ready) }) }})
		close(done)
	}()
	<-ready
	time.Sleep(5 * time.Millisecond) // both ways find the tree at rest
	begin := time.Now()
	cancel()
	<-done
	return time.Since(begin)
}

func killGroup(b *testing.B, line string) time.Duration {
	mark := newMark()
	cmd := exec.CommandContext(b.Context(), "bash", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = env(mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, _ = io.ReadFull(out, make([]byte, len("ready\n")))
	time.Sleep(5 * time.Millisecond)
	begin := time.Now()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_, _ = io.Copy(io.Discard, out) // the last that holds it has ended
	took := time.Since(begin)
	_ = cmd.Wait()
	for _, pid := range marked(mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return took
}

const (
	gigabyte = 1 << 30
	flood    = `yes 'a line of output that is sixty-three bytes long, all the same!!' | head -c 1073741824; echo; echo the end`
)

// BenchmarkGigabyte prints a gigabyte, through the Runner and by sh into a pipe into
// cat into a file, and watches the memory of the Runner and its supervisors.
func BenchmarkGigabyte(b *testing.B) {
	dir := b.TempDir()
	r := newRunner(b, shell.Options{Log: quiet, SpoolDir: dir})
	run(b, r, shell.Command{Line: "true"})
	var ours, plain []time.Duration
	var peak int64
	for b.Loop() {
		runtime.GC()
		watch := watchMemory()
		begin := time.Now()
		m := run(b, r, shell.Command{Line: flood, Output: func(string, string) {}}).Merged
		ours = append(ours, time.Since(begin))
		peak = max(peak, watch())
		checkGigabyte(b, m)
		begin = time.Now()
		cmd := exec.CommandContext(b.Context(), "sh", "-c", "("+flood+") | cat > plain")
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
		_ = os.Remove(filepath.Join(dir, "plain"))
	}
	report(b, ours, plain)
	b.ReportMetric(float64(peak)/(1<<20), "MiB-peak-above-idle")
	b.ReportMetric(sortedAt(plain, 0.5)/sortedAt(ours, 0.5), "throughput-of-plain")
}

// checkGigabyte: the end is right, and the middle is in the file.
func checkGigabyte(b *testing.B, m shell.Text) {
	b.Helper()
	if m.Bytes < gigabyte || !strings.HasSuffix(m.Shown, "\nthe end") {
		b.Fatalf("%d bytes, the end is %.40q", m.Bytes, m.Shown[max(0, len(m.Shown)-40):])
	}
	f, err := os.Open(m.File)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	line := make([]byte, 66)
	if _, err := f.ReadAt(line, 64*(gigabyte/2/64/2)); err != nil || !strings.Contains(string(line), "a line of") && !strings.Contains(string(line), "all the same") {
		b.Fatalf("the middle is %q: %v", line, err)
	}
}

// watchMemory measures how much this process and those below it take, of their own,
// more than now; the function that it returns gives the peak.
func watchMemory() func() int64 {
	total := func() (sum int64) {
		sum = memory(os.Getpid())
		for _, pid := range below(os.Getpid()) {
			if exe, _ := os.Readlink("/proc/" + itoa(pid) + "/exe"); strings.HasSuffix(exe, ".test") {
				sum += memory(pid)
			}
		}
		return sum
	}
	idle := total()
	var peak atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				peak.Store(max(peak.Load(), total()-idle))
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return peak.Load()
	}
}

// BenchmarkFirst is the first command of a Runner, which starts the supervisor.
func BenchmarkFirst(b *testing.B) {
	for b.Loop() {
		r, err := shell.New(shell.Options{Env: env(), SpoolDir: os.TempDir(), WorkingDir: "/", Log: quiet})
		if err != nil {
			b.Fatal(err)
		}
		run(b, r, shell.Command{Line: "true"})
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
