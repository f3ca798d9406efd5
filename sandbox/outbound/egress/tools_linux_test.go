package egress

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
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

// curl finds the door by its variables, reaches what is allowed, and nothing else,
// whatever it is asked for. That other tools do is sandboxtest's TestDownloads.
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
	w := sites(plain, secure, "example.com", "other.example", "inner.example")
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

// Without a door there is nothing to find.
func TestNoDoor(t *testing.T) {
	need(t, "curl")
	s := hello(t)
	b := newBox(t, nil)
	b.works("none", "env | grep -i proxy || echo none")
	b.fails("curl -sS --max-time 5 http://" + addressOf(s) + "/")
	b.fails("curl -sS --max-time 5 http://example.com/")
}
