package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/inside/supervise"
)

// This program is also the other programs of the measurements, under these names.
var programs = map[string]func() error{
	flooderName: func() error { return flood(os.Stdin, os.Stdout) },
	proxyName:   func() error { return proxy(os.Args[1]) },
	copierName:  func() error { return copyLines(os.Stdin, os.Stdout) },
	openerName:  func() error { return opener(os.Args[1], os.Args[2]) },
	fetcherName: func() error { return fetcher(os.Args[1], os.Args[2]) },
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb { // without the tag embedded
		os.Exit(supervise.Main(os.Args[1:]))
	}
	program, ok := programs[filepath.Base(os.Args[0])]
	if !ok {
		os.Exit(m.Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestBench is all measurements, or those that -run 'TestBench/(rules|look)' picks.
func TestBench(t *testing.T) {
	b := newBench(t)
	for _, part := range []struct {
		name    string
		measure func()
	}{
		{"spawn", b.sameSpawn},
		{"prompt", b.samePrompt},
		{"chunks", b.sameChunks},
		{"flood", b.sameFlood},
		{"start", b.sameStart},
		{"kill", b.sameKill},
		{"cancel", b.sameCancel},
		{"opencode", b.sameOpencode},
		{"docker", func() { b.needDocker(); b.samePromptInDocker(); b.sameContainerStart(); b.sameExec(); b.sameStdio() }},
		{"road", b.sameRoad},
		{"rules", b.sameRules},
		{"masks", b.sameMasks},
		{"setup", b.sameSetup},
		{"tree", b.sameTree},
		{"others", b.sameOthers},
		{"team", b.sameTask},
		{"pool", func() { b.needDocker(); b.samePool() }},
		{"cold", func() { b.needDocker(); b.coldStart() }},
		{"look", b.sameLook},
	} {
		t.Run(part.name, func(sub *testing.T) {
			b.t = sub
			defer func() { b.t = t }()
			part.measure()
		})
	}
	if err := b.table.print(os.Stdout, b.machine()); err != nil {
		t.Fatal(err)
	}
}

// A bench is one run of all measurements.
type bench struct {
	*world
	full  bool
	table table
}

func newBench(t *testing.T) *bench {
	t.Helper()
	full := os.Getenv("GANDER_BENCH") == "1"
	need(t, !full || !raceDetector(), "for the race detector slows down the other side only (go test without -race)")
	return &bench{world: newWorld(t), full: full}
}

// raceDetector says whether this program, which is also the plain proxy and the
// bare pipes, was built with it.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// runs is how often each side of a pair is measured.
func (b *bench) runs(full int) int { return b.rounds(full, 2) }

// rounds is runs of a pair that has a limit, which is to hold by more than chance.
func (b *bench) rounds(full, check int) int {
	if b.full {
		return full
	}
	return check
}

// bounded measures a pair that fails the run when ours is more than limit times theirs,
// and is so again when it is measured once more.
func (b *bench) bounded(limit float64, measure func() pair) pair {
	b.t.Helper()
	p := measure()
	first := p.ratio()
	if first <= limit {
		return p
	}
	p = measure()
	if again := p.ratio(); again > limit {
		b.t.Errorf("%s: %s, and when measured again %s; more than %g× is a fault and not a matter of the machine", p.what, times(first), times(again), limit)
	}
	return p
}

// machine says what the numbers were measured on.
func (b *bench) machine() string {
	load, _, _ := strings.Cut(firstLine(os.ReadFile("/proc/loadavg")), " ")
	return fmt.Sprintf("%s, %d cores, load %s at the end; Linux %s; %s; goose %s; opencode %s; gander %s",
		cpuModel(), runtime.NumCPU(), load, firstLine(os.ReadFile("/proc/sys/kernel/osrelease")), runtime.Version(),
		firstLine(exec.Command(b.goose, "--version").Output()), firstLine(exec.Command(b.opencode, "--version").Output()),
		strings.TrimPrefix(firstLine(exec.Command(b.gander, "version").Output()), "gander "))
}

func firstLine(text []byte, err error) string {
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// need ends the test when a condition for it is missing: as a failure where
// everything was promised to be there, as a skip elsewhere.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("nothing was measured, %s", what)
	default:
		t.Skipf("nothing was measured, %s; make bench has it", what)
	}
}

// copyFile makes an executable copy.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
