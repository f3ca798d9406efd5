package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
)

// use is ordinary work, as a script that ends without an error.
type use struct{ name, needs, script string }

// ordinaryUses are what people and their tools do all day in a project.
func ordinaryUses() []use {
	return []use{
		{"git", "git", `( cd repo && echo x > f && git add f && git commit -qm x && git checkout -qb b && git stash list && git status -s && git log --oneline | grep -q x )`},
		{"go build and test", "go", `( cd work && go build ./... && go test -vet=off ./... )`},
		{"node", "node", `echo 'require("fs").writeFileSync("n.txt", "n"); require("fs").watch(".").close(); require("child_process").execSync("cat n.txt")' > n.js && node n.js && grep -q n n.txt`},
		{"npm", "npm", `mkdir -p npm && ( cd npm && echo '{"name":"x","version":"1.0.0","scripts":{"test":"echo tested > out"}}' > package.json && npm --offline install >/dev/null && npm test >/dev/null && grep -q tested out )`},
		{"python", "python3", `echo 'import mmap, subprocess, tempfile; f = open("m", "w+b"); f.write(b"x"*4096); f.flush(); m = mmap.mmap(f.fileno(), 0); m[0:1] = b"y"; m.flush(); tempfile.TemporaryFile().write(b"x"); assert subprocess.check_output(["cat", "m"])[0:1] == b"y"' > p.py && python3 p.py && python3 -m venv --without-pip v`},
		{"make", "make", `printf 'out: in\n\tcat in > out\n' > Makefile && echo 1 > in && make -s && make -sj4 && grep -q 1 out`},
		{"sed -i", "sed", `echo 2 > s && sed -i s/2/3/ s && grep -q 3 s`},
		{"editors' saves", "mv", `echo 1 > e && echo 2 > .e.swp && cp -p e e~ && mv .e.swp e && rm e~ && grep -q 2 e`},
		{"locks", "flock", `flock l true && flock -s l cat l`},
		{"pipes", "mkfifo", `mkfifo p && (echo hello > p &) && read -r x < p && test "$x" = hello && seq 1000 | sort | wc -l | grep -q 1000`},
		{"tail -f", "tail", `echo 1 > log; timeout 20 tail -n +1 -f log > got & sleep 0.3; echo 2 >> log; for i in $(seq 100); do grep -q 2 got && break; sleep 0.1; done; kill $!; grep -q 2 got`},
	}
}

// workPatience bounds one use.
const workPatience = 4 * time.Minute

// ordinaryProgram is a Go package whose test uses what editors, compilers and servers
// use of the kernel.
const ordinaryProgram = `package work

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKernel(t *testing.T) {
	f := must(os.OpenFile("m", os.O_CREATE|os.O_RDWR, 0o600))
	_ = must(f.Write(make([]byte, 4096)))
	m := must(syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))
	m[0] = 'y'
	if must(os.ReadFile("m"))[0] != 'y' || syscall.Munmap(m) != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX) != nil {
		t.Error("mmap or flock")
	}
	watch := must(syscall.InotifyInit1(syscall.IN_CLOEXEC))
	_ = must(syscall.InotifyAddWatch(watch, ".", syscall.IN_MOVED_TO))
	if err := os.WriteFile("tmp", nil, 0o600); err != nil || os.Rename("tmp", "saved") != nil {
		t.Error(err)
	}
	if n := must(syscall.Read(watch, make([]byte, 4096))); n == 0 {
		t.Error("inotify says nothing")
	}
	pair := must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))
	_ = must(syscall.Write(pair[0], []byte("hi")))
	if n := must(syscall.Read(pair[1], make([]byte, 2))); n != 2 {
		t.Error("a socket says nothing")
	}
	if string(must(exec.Command("cat", "saved", "work.go").Output())) == "" {
		t.Error("a program says nothing")
	}
}
`

// TestOrdinaryWork tests that a sandbox that keeps rules does not get into the way of
// ordinary work. Its programs have to be there.
func TestOrdinaryWork(t *testing.T, newDriver NewDriver, owner int) {
	spec := Spec(t, owner)
	root := ""
	if out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output(); err == nil {
		root = strings.TrimSpace(string(out))
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: root})
	}
	work := filepath.Join(spec.WorkingDir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"work/go.mod": "module example.org/work\n\ngo 1.26\n", "work/work.go": "// Package work works.\npackage work\n", "work/work_test.go": ordinaryProgram, ".env": "closed"} {
		if err := os.WriteFile(filepath.Join(spec.WorkingDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := outside(t, spec.WorkingDir, "git init -q --template= repo"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if owner >= 0 && os.Geteuid() == 0 {
		if out, err := outside(t, spec.WorkingDir, "chown -R 12345 ."); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	sb := Create(t, newDriver(t), spec)
	env := append(gitEnv(), "PATH="+filepath.Join(root, "bin")+":/usr/local/bin:/usr/bin:/bin", "HOME="+sb.Info().Home, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local")
	for _, u := range ordinaryUses() {
		if _, _, st := Run(t, sb, "command -v "+u.needs, env...); st.Code != 0 {
			t.Errorf("%s is missing inside", u.needs)
			continue
		}
		// A compiler's cache is cold, and takes longer than the rest together.
		p := Start(t, sb, "{ "+u.script+"; } >said 2>&1 </dev/null", env...)
		ctx, cancel := context.WithTimeout(t.Context(), workPatience)
		st, err := p.Wait(ctx)
		cancel()
		Kill(t, p)
		if said, _, _ := Run(t, sb, "tail -c 2000 said"); err != nil || st.Code != 0 {
			t.Errorf("%s: exit code %d, %v: %s", u.name, st.Code, err, said)
		}
	}
}
