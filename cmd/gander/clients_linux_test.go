package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gander.dev/gander/conformance/sitetest"
	"gander.dev/gander/sandbox/trials/sandboxtest"
)

// netClient is a program that people reach hosts with: script reaches $HOST at $PORT.
type netClient struct {
	name, serves, script string
	// check has it in make check; of others, soak's machines have their servers.
	check bool
}

const (
	javaGet = `public class Get { public static void main(String[] a) throws Exception {
	var c = (java.net.HttpURLConnection) new java.net.URL(a[0]).openConnection();
	System.out.println(c.getResponseCode() + " " + new String(c.getInputStream().readAllBytes()));
} }`
	gitSSH = `GIT_SSH_COMMAND="ssh -q -i $PWD/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null" git clone -q ssh://$SSH_USER@$HOST:$PORT$REPO "$(mktemp -d)/x"`
)

var netClients = []netClient{
	{"curl", "http", `test "$(curl -sS http://$HOST:$PORT/)" = hello`, true},
	{"Node's fetch", "http", `node -e 'fetch(process.argv[1]).then((r) => r.text()).then((text) => process.exit(text === "hello" ? 0 : 1))' http://$HOST:$PORT/`, true},
	{"Python", "http", `python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read())' http://$HOST:$PORT/`, false},
	{"Java's HttpURLConnection", "http", `java Get.java http://$HOST:$PORT/ | grep -q "200 hello"`, false},
	{"npm", "http", `test "$(npm view tiny version --cache .cache --registry http://$HOST:$PORT/)" = 1.0.0`, false},
	{"go", "http", `cd m && GOPROXY=http://$HOST:$PORT GOSUMDB=off GOFLAGS=-modcacherw GOTOOLCHAIN=local GOMODCACHE="$(mktemp -d)" go mod download example.org/tiny`, false},
	{"git over https", "https", `GIT_SSL_CAINFO=$PWD/authority.pem git clone -q https://$HOST:$PORT/tiny.git "$(mktemp -d)/x"`, false},
	{"git over ssh", "sshd", gitSSH, false},
	{"psql", "postgres", `test "$(psql -h $HOST -p $PORT -U gander -d postgres -Atc 'select 6 * 7')" = 42`, false},
	{"redis-cli", "redis-server", `test "$(redis-cli -h $HOST -p $PORT ping)" = PONG`, false},
}

// TestNetClients has real programs reach an allowed server of this machine by plain TCP. Others,
// by a name and by an address, they give up at once, gander says a line of each, and nothing
// comes there.
func TestNetClients(t *testing.T) {
	soak := os.Getenv("GANDER_EVERYWHERE") != ""
	project, gander := t.TempDir(), asGander(t)
	servers := map[string]func(*testing.T, string) (port int, env []string){
		"http": serveHTTP, "https": serveHTTPS, "sshd": serveSSH, "postgres": servePostgres, "redis-server": serveRedis,
	}
	outside, heard := outsideTrap(t)
	for _, c := range netClients {
		if !c.check && !soak {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			port, env := servers[c.serves](t, project)
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "config.json"), fmt.Appendf(nil, `{"policy": {"network": {"allow": ["127.0.0.1:%d"]}}}`, port), 0o600); err != nil {
				t.Fatal(err)
			}
			do := func(host string, port int) (string, bool) {
				t.Helper()
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				command := append([]string{"env", "HOST=" + host, "PORT=" + strconv.Itoa(port)}, env...)
				command = append(command, "sh", "-c", `unset $(env | sed -n 's/^\([A-Za-z_]*_[Pp][Rr][Oo][Xx][Yy]\)=.*/\1/p'); `+c.script)
				began := time.Now()
				out, err := exec.CommandContext(ctx, gander, append([]string{"--home", home, "--log-level", "error", "sandbox", "exec", "--cwd", project, "--"}, command...)...).CombinedOutput()
				t.Logf("to %s: %v after %s", host, err, time.Since(began))
				if ctx.Err() != nil {
					t.Errorf("it does not end: %s", out)
				}
				return string(out), err == nil
			}
			if said, ok := do("127.0.0.1", port); !ok {
				t.Errorf("the allowed server is not reached: %s", said)
			}
			refused := map[string]int{"other.example": port}
			if outside.IP != nil {
				refused[outside.IP.String()] = outside.Port
			}
			for host, port := range refused {
				said, ok := do(host, port)
				if want := "gander: The sandbox may not reach " + host; ok || strings.Count(said, want) != 1 || !strings.Contains(said, "gander policy allow "+host) {
					t.Errorf("%s is reached, or not one line says %q: %s", host, want, said)
				}
			}
		})
	}
	if n := heard.Load(); n != 0 {
		t.Errorf("%d connections came to what is not allowed", n)
	}
}

// outsideTrap counts the connections to an address of this machine that is not loopback, if it has one.
func outsideTrap(t *testing.T) (net.TCPAddr, *atomic.Int32) {
	t.Helper()
	var heard atomic.Int32
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.To4() == nil {
			continue
		}
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: n.IP})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() { // ends with the listener
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				heard.Add(1)
				_ = c.Close()
			}
		}()
		at := *l.Addr().(*net.TCPAddr)
		if c, err := net.DialTCP("tcp4", nil, &at); err != nil { // it counts
			t.Fatal(err)
		} else if _, err := c.Read(make([]byte, 1)); err != io.EOF || heard.Swap(0) != 1 {
			t.Fatalf("the trap does not count: %v", err)
		}
		return at, &heard
	}
	return net.TCPAddr{}, &heard
}

func serveHTTP(t *testing.T, project string) (port int, env []string) {
	s := httptest.NewServer(sandboxtest.Site(t))
	t.Cleanup(s.Close)
	writeIn(t, project, "Get.java", javaGet)
	writeIn(t, project, "m/go.mod", "module example.org/user\n\ngo 1.21\n\nrequire example.org/tiny v1.0.0\n")
	return s.Listener.Addr().(*net.TCPAddr).Port, nil
}

func serveHTTPS(t *testing.T, project string) (port int, env []string) {
	s := httptest.NewUnstartedServer(sandboxtest.Site(t))
	config, authority := sitetest.Certified(t, "127.0.0.1")
	s.TLS, s.Config.ErrorLog = config, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	writeIn(t, project, "authority.pem", string(authority))
	return s.Listener.Addr().(*net.TCPAddr).Port, nil
}

func serveSSH(t *testing.T, project string) (port int, env []string) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	repo := filepath.Join(dir, "tiny.git")
	must(t, "", "git", "init", "-q", "--bare", repo)
	for _, key := range []string{filepath.Join(dir, "host"), filepath.Join(project, "key")} {
		must(t, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	}
	port = sandboxtest.FreePort(t)
	writeIn(t, dir, "conf", fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s/host\nAuthorizedKeysFile %s/key.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n", port, dir, project))
	_ = os.Mkdir("/run/sshd", 0o755) // as its service makes it; sshd says if it lacks it
	background(t, "Server listening on", nil, "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "conf"))
	return port, []string{"SSH_USER=" + me.Username, "REPO=" + repo}
}

func servePostgres(t *testing.T, _ string) (port int, env []string) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("there is no PostgreSQL: apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 { // as whom it does not run
		its, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(its.Uid)
		gid, _ := strconv.Atoi(its.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	bin, data := found[len(found)-1], filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "gander", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port = sandboxtest.FreePort(t)
	background(t, "ready to accept connections", as, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	return port, nil
}

func serveRedis(t *testing.T, _ string) (port int, env []string) {
	port = sandboxtest.FreePort(t)
	background(t, "Ready to accept connections", nil, "redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	return port, nil
}

// background starts a server, waits until it says that it is up, and ends it after the test.
func background(t *testing.T, up string, as *syscall.SysProcAttr, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = "/", w, w, as
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = io.Copy(io.Discard, r); _ = cmd.Wait(); _ = r.Close() }) // the test's context has ended
	var said strings.Builder
	for s := bufio.NewScanner(r); s.Scan(); {
		if said.WriteString(s.Text() + "\n"); strings.Contains(s.Text(), up) {
			return
		}
	}
	t.Fatalf("%s does not start: %s", command[0], said.String())
}

func must(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, out)
	}
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
