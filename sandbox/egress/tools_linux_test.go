package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/local"
)

// toolTime bounds one tool; the machine may be busy.
const toolTime = 2 * time.Minute

// need finds a program that a test cannot do without.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("GANDER_CHECK") == "1":
		t.Fatalf("there is no %s", name)
	default:
		t.Skipf("there is no %s", name)
	}
	return path
}

// box is a sandbox whose only way out is a door, and a directory that it works in.
type box struct {
	t   *testing.T
	sb  sandbox.Sandbox
	dir string
}

func newBox(t *testing.T, d *Door) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir()}
	spec := sandbox.Spec{ID: "test-egress", WorkingDir: b.dir, Home: t.TempDir()}
	if d != nil {
		spec.Doors = []sandbox.Door{{Name: "egress", Dial: d.Dial}}
	}
	sb, err := local.New(local.Options{}).Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	b.sb = sb
	return b
}

// run runs a shell command inside and returns what it says and its exit code.
func (b *box) run(command string, env ...string) (string, int) {
	b.t.Helper()
	ctx, done := context.WithTimeout(b.t.Context(), toolTime)
	defer done()
	all := []string{"PATH=" + os.Getenv("PATH") + ":/usr/local/go/bin", "HOME=" + b.sb.Info().Home}
	all = append(append(all, sandbox.ProxyEnvironment(b.sb.Info().Doors["egress"])...), env...)
	p, err := b.sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", "exec 2>&1; " + command}, Env: all, NullStdin: true})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = p.Kill(context.WithoutCancel(ctx)) }()
	defer context.AfterFunc(ctx, func() { _ = p.Kill(context.WithoutCancel(ctx)) })()
	out, _ := io.ReadAll(p.Stdout())
	status, err := p.Wait(ctx)
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out), status.Code
}

// works fails the test unless a command ends well and says something.
func (b *box) works(want, command string, env ...string) {
	b.t.Helper()
	if out, code := b.run(command, env...); code != 0 || !strings.Contains(out, want) {
		b.t.Errorf("%s: exit code %d\n%s", command, code, out)
	}
}

// fails fails the test when a command ends well.
func (b *box) fails(command string, env ...string) {
	b.t.Helper()
	if out, code := b.run(command, env...); code == 0 {
		b.t.Errorf("%s works:\n%s", command, out)
	}
}

// put is a file for the box.
func (b *box) put(name string, data []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// sites are names that the resolver of a test knows, all at one public address of
// which each port leads to a server.
func sites(t *testing.T, plain, secure *httptest.Server, names ...string) *world {
	t.Helper()
	w := &world{names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
	for _, name := range names {
		w.names[name] = []netip.Addr{public}
	}
	w.servers[netip.AddrPortFrom(public, 80)] = addressOf(plain)
	if secure != nil {
		w.servers[netip.AddrPortFrom(public, 443)] = addressOf(secure)
	}
	return w
}

// The real tools find the door by their variables, reach what is allowed, and
// nothing else.
func TestCurl(t *testing.T) {
	need(t, "curl")
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "hello from "+r.Host)
	})
	plain, secure := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	w := sites(t, plain, secure, "example.com", "other.example", "inner.example")
	w.names["inner.example"] = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	b := newBox(t, opened(t, w, Options{Rules: rules(t, "example.com", "inner.example:*")}))
	b.put("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	b.works("hello from example.com", "curl -sS http://example.com/")
	b.works("hello from example.com", "curl -sS --cacert ca.pem https://example.com/")
	b.works("hello from example.com", "curl -sS --cacert ca.pem --proxy \"$ALL_PROXY\" https://example.com/")
	b.works("hello from example.com", "curl -sS -H 'Host: other.example' http://example.com/")
	b.works("403", "curl -sSL -o /dev/null -w '%{http_code}' http://example.com/away")
	b.works("403", "curl -sS -o /dev/null -w '%{http_code}' http://other.example/")
	for _, address := range []string{
		"https://other.example/", "https://inner.example/", "http://example.com:8080/", "https://" + public.String() + "/", "https://2130706433/",
		"https://169.254.169.254/latest/", "https://[fd00:ec2::254]/", "https://[::ffff:169.254.169.254]/", "ftp://example.com/",
	} {
		b.fails("curl -sSfk --max-time 20 '" + address + "'")
	}
	b.fails("curl -sSk --connect-to other.example:443:example.com:443 https://other.example/") // another name in the greeting
	b.fails("curl -sS --noproxy '*' --max-time 5 http://" + addressOf(plain) + "/")
	b.fails("curl -sS --noproxy '*' --max-time 5 http://example.com/")
	for _, to := range w.dialed {
		if to.Addr() != public {
			t.Errorf("a connection was made to %s", to)
		}
	}
}

func TestGit(t *testing.T) {
	need(t, "git")
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	repos := t.TempDir()
	script := `git init -q --bare -b main tiny.git && git init -q -b main w && cd w && echo hello > file && git add file &&
git -c user.name=x -c user.email=x@example.com commit -qm one && git push -q ../tiny.git main`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = repos
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Logger: nil,
		Env: []string{"GIT_PROJECT_ROOT=" + repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	t.Cleanup(s.Close)
	b := newBox(t, opened(t, sites(t, s, nil, "git.example", "other.example"), Options{Rules: rules(t, "git.example:80")}))
	b.works("hello", "git clone -q http://git.example/tiny.git a && cat a/file")
	b.fails("git clone -q http://other.example/tiny.git b")
	b.fails("git clone -q git://git.example/tiny.git c")
	b.fails("timeout 20 git clone -q ssh://git.example/tiny.git d")
}

func TestNpm(t *testing.T) {
	need(t, "npm")
	var tarball bytes.Buffer
	z := gzip.NewWriter(&tarball)
	tw := tar.NewWriter(z)
	for name, text := range map[string]string{"package/package.json": `{"name":"tiny","version":"1.0.0"}`, "package/index.js": "module.exports = 'tiny works'"} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tw, text)
	}
	_, _ = tw.Close(), z.Close()
	sum := sha512.Sum512(tarball.Bytes())
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tiny":
			_, _ = fmt.Fprintf(w, `{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0","dist":{"tarball":"http://npm.example/tiny.tgz","integrity":%q}}}}`, integrity)
		case "/tiny.tgz":
			_, _ = w.Write(tarball.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b := newBox(t, opened(t, sites(t, s, nil, "npm.example", "other.example"), Options{Rules: rules(t, "npm.example")}))
	const install = "npm install --no-audit --no-fund --loglevel error --fetch-retries 0 --cache .cache --registry "
	b.works("tiny works", install+"http://npm.example/ tiny && node -p 'require(\"tiny\")'")
	b.fails("rm -rf node_modules package*.json .cache; " + install + "http://other.example/ tiny")
}

func TestGo(t *testing.T) {
	need(t, "go")
	var module bytes.Buffer
	z := zip.NewWriter(&module)
	for name, text := range map[string]string{"go.mod": "module example.org/tiny\n\ngo 1.21\n", "tiny.go": "package tiny\n\nconst Says = \"tiny works\"\n"} {
		f, err := z.Create("example.org/tiny@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, text)
	}
	_ = z.Close()
	files := map[string][]byte{
		"list": []byte("v1.0.0\n"), "v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`),
		"v1.0.0.mod": []byte("module example.org/tiny\n\ngo 1.21\n"), "v1.0.0.zip": module.Bytes(),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/example.org/tiny/@v/")
		if !ok || files[name] == nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(files[name])
	}))
	t.Cleanup(s.Close)
	b := newBox(t, opened(t, sites(t, s, nil, "go.example", "other.example"), Options{Rules: rules(t, "go.example")}))
	b.put("go.mod", []byte("module example.org/user\n\ngo 1.21\n"))
	b.put("main.go", []byte("package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/tiny\"\n)\n\nfunc main() { fmt.Println(tiny.Says) }\n"))
	env := func(host string) []string {
		return []string{"GO" + "PROXY=http://" + host, "GO" + "SUMDB=off", "GOFLAGS=-mod=mod -modcacherw", "GOTOOLCHAIN=local"}
	}
	b.fails("go get example.org/tiny@v1.0.0", env("other.example")...)
	b.works("", "go get example.org/tiny@v1.0.0", env("go.example")...)
	b.works("v1.0.0", "go list -m example.org/tiny", env("go.example")...)
}

// Without a door there is nothing to find.
func TestNoDoor(t *testing.T) {
	need(t, "curl")
	s := hello(t)
	b := newBox(t, nil)
	b.works("none", "env | grep -i proxy || echo none")
	b.fails("curl -sS --max-time 5 http://" + addressOf(s) + "/")
	b.fails("curl -sS --max-time 5 http://example.com/")
}
