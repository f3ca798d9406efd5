package sandboxtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/outbound/egress"
)

// toolTime bounds what a tool does; the machine may be busy.
const toolTime = 2 * time.Minute

// A tool is a program that downloads something: script from HOST, which is an address
// with its scheme.
type tool struct {
	name, script string
	// there is a script that works where the tool is; without one it has to be there.
	there string
	// secure says that it takes nothing that comes plainly.
	secure bool
	// home is where it downloads from unless it is told otherwise, which is the preset's.
	home, preset string
	// never are its other ways to the same host, which no rule has allowed.
	never []string
}

// downloads are what people allow hosts for.
func downloads() []tool {
	return []tool{
		{name: "curl", script: `test "$(curl -sSf HOST/)" = hello`},
		{name: "git", home: "github.com", preset: "git", script: `rm -rf "$HOME/a" && git clone -q HOST/tiny.git "$HOME/a" && grep -q hello "$HOME/a/file"`, never: []string{
			`timeout 20 git clone -q git://HOST/tiny.git "$HOME/b"`, `timeout 20 git clone -q ssh://HOST/tiny.git "$HOME/c"`,
		}},
		{name: "npm", home: "registry.npmjs.org", preset: "npm", script: `rm -rf n && mkdir n && cd n && npm install --no-audit --no-fund --loglevel error --fetch-retries 0 --cache .cache --registry HOST/ tiny &&
node -p 'require("tiny")' | grep -q 'tiny works'`},
		{name: "go", home: "proxy.golang.org", preset: "go", script: `rm -rf m "$HOME/go" && mkdir m && cd m && printf 'module example.org/user\n\ngo 1.21\n\nrequire example.org/tiny v1.0.0\n' > go.mod &&
GOPROXY=HOST go mod download example.org/tiny && grep -q 'tiny works' "$HOME/go/pkg/mod/example.org/tiny@v1.0.0/tiny.go"`},
		{name: "pip", home: "pypi.org", preset: "pypi", there: "python3 -m pip --version", secure: true, script: `rm -rf p &&
python3 -m pip install -q --disable-pip-version-check --no-cache-dir --no-input --retries 0 --target p --index-url HOST/simple tiny && grep -q 'tiny works' p/tiny.py`},
	}
}

// toolEnv are the variables by which the tools find whom to trust.
func toolEnv(authority string) []string {
	env := []string{"GOSUMDB=off", "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local"}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "PIP_CERT"} {
		env = append(env, name+"="+authority)
	}
	return env
}

// TestDownloads tests that the usual tools reach an allowed host as they are, plainly and
// by TLS, their own hosts by presets, and another name of the same server not.
func TestDownloads(t *testing.T, newDriver NewDriver, owner int) {
	spec := Spec(t, owner)
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: root})
	authority := filepath.Join(spec.WorkingDir, "authority.pem")
	const allowed, other = "allowed.example", "other.example"
	names, presets := []string{allowed, other, filesHost}, []string{}
	for _, d := range downloads() {
		if d.preset != "" {
			names, presets = append(names, d.home), append(presets, d.preset)
		}
	}
	rules, err := egress.ParseRules([]string{allowed}, presets)
	if err != nil {
		t.Fatal(err)
	}
	door := newSite(t, authority, rules, names)
	spec.Doors = []sandbox.Door{{Name: "egress", Dial: door.Dial}}
	spec.Road, spec.Rules = door, &sandbox.Rules{Own: "/nowhere/.gooseignore"}
	sb := Create(t, newDriver(t), spec)
	plain := append(toolEnv(authority), "PATH="+filepath.Join(root, "bin")+":/usr/local/bin:/usr/bin:/bin", "HOME="+sb.Info().Home)
	proxied := append(slices.Clone(plain), sandbox.ProxyEnvironment(sb.Info().Doors["egress"])...)
	runWith := func(t *testing.T, env []string, script string) (string, int) {
		t.Helper()
		p := StartCommand(t, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", "exec 2>&1; " + script}, Env: Env(env...), NullStdin: true})
		defer Kill(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), toolTime)
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = p.Kill(context.WithoutCancel(ctx)) })()
		said, _ := io.ReadAll(p.Stdout())
		st, err := p.Wait(ctx)
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, said)
		}
		return string(said), st.Code
	}
	run := func(t *testing.T, script string) (string, int) { t.Helper(); return runWith(t, proxied, script) }
	for _, d := range downloads() {
		t.Run(d.name, func(t *testing.T) {
			if d.there != "" {
				if said, code := run(t, d.there); code != 0 {
					if os.Getenv("GANDER_CHECK") == "1" {
						t.Fatalf("it is missing inside: %s", said)
					}
					t.Skipf("it is missing inside: %s", said)
				}
			}
			schemes := []string{"https://", "http://"}
			if d.secure {
				schemes = schemes[:1]
			}
			for _, scheme := range schemes {
				if said, code := run(t, strings.ReplaceAll(d.script, "HOST", scheme+allowed)); code != 0 {
					t.Errorf("from %s%s: exit code %d: %s", scheme, allowed, code, said)
				}
				if said, code := run(t, strings.ReplaceAll(d.script, "HOST", scheme+other)); code == 0 {
					t.Errorf("from %s%s, which is not allowed, it works: %s", scheme, other, said)
				}
			}
			if d.name == "curl" || os.Getenv("GANDER_EVERYWHERE") != "" { // by plain TCP
				if said, code := runWith(t, plain, strings.ReplaceAll(d.script, "HOST", "https://"+allowed)); code != 0 {
					t.Errorf("from %s without the proxy: exit code %d: %s", allowed, code, said)
				}
				if said, code := runWith(t, plain, strings.ReplaceAll(d.script, "HOST", "https://"+other)); code == 0 {
					t.Errorf("from %s without the proxy, which is not allowed, it works: %s", other, said)
				}
			}
			if d.preset != "" {
				if said, code := run(t, strings.ReplaceAll(d.script, "HOST", "https://"+d.home)); code != 0 {
					t.Errorf("from %s, by a preset: exit code %d: %s", d.home, code, said)
				}
			}
			for _, script := range d.never {
				if said, code := run(t, strings.ReplaceAll(script, "HOST", allowed)); code == 0 {
					t.Errorf("%s works: %s", script, said)
				}
			}
		})
	}
}
