package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gander.dev/gander/cmd/gander/internal/doctor"
	"gander.dev/gander/conformance/model"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
	"gander.dev/gander/sandbox/trials/probe"
)

// The test binary is gander too: a supervisor first, as main has it, or an attempt of
// the probe, then the command of the scripts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == probe.Verb {
		os.Exit(probe.Main(os.Args[1:], os.Stdin, os.Stdout))
	}
	if calledGoose(os.Args[0]) { // by a link of that name
		main()
	}
	testscript.Main(m, map[string]func(){"gander": main})
}

// testKey is the model's key in scripts; its bytes may not be printed anywhere.
const testKey = "sk-canary-0123456789abcdef"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "model": startModel, "json": validJSON, "cmpids": compareIDs, "expand": expand,
			"findings": findings, "endpoint": startEndpoint, "registry": startRegistry, "plane": newPlanes(t).command,
		},
		Condition: have,
	})
}

func setUpScript(env *testscript.Env) error {
	env.Setenv("GANDER_HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "person"))
	env.Setenv("GOOSE", goosePath())
	env.Setenv("OPENCODE", opencodePath())
	env.Setenv("MACHINE", registry.Machine())
	env.Setenv("BIN", filepath.SplitList(env.Getenv("PATH"))[0]) // only gander is in it
	for _, dir := range []string{"person", "project"} {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// exits CODE CMD… runs a command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// model FILE starts a scripted model and configures it by the environment.
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model FILE")
	}
	script, err := model.ParseScript([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	server := model.New(model.Options{Script: script, Models: []string{"scripted", "other"}, Key: testKey})
	url, err := server.Start()
	ts.Check(err)
	ts.Defer(func() { _ = server.Close() })
	ts.Setenv("LLM_HOST", url)
	ts.Setenv("LLM_API_KEY", testKey)
	ts.Setenv("GOOSE_MODEL", "scripted")
}

// endpoint KIND configures an endpoint that is there and wrong: tls (nobody knows
// its authority), late (its clock is behind) or silent (it never answers).
func startEndpoint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: endpoint tls|late|silent")
	}
	over := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch args[0] {
		case "silent":
			select {
			case <-r.Context().Done():
			case <-over:
			}
		case "late":
			w.Header().Set("Date", time.Now().Add(-26*time.Hour).UTC().Format(http.TimeFormat))
		}
		_, _ = io.WriteString(w, `{"data": [{"id": "scripted"}]}`)
	})
	start := httptest.NewServer
	if args[0] == "tls" {
		start = func(h http.Handler) *httptest.Server {
			s := httptest.NewUnstartedServer(h)
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the refused handshake
			s.StartTLS()
			return s
		}
	}
	server := start(handler)
	ts.Defer(func() { close(over); server.Close() })
	ts.Setenv("LLM_HOST", server.URL)
	ts.Setenv("LLM_API_KEY", testKey)
	ts.Setenv("GOOSE_MODEL", "scripted")
}

// registry CONFIG FILE writes a configuration that has gander upgrade ask a server of the
// script's files for FILE; "elsewhere" leads to another host.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: registry CONFIG FILE")
	}
	files := http.FileServer(http.Dir(ts.MkAbs(".")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			return
		}
		files.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(nil, `{"upgrade": {"url": "%s/%s"}}`, server.URL, args[1]), 0o600))
}

// changing is what differs from run to run in what doctor says.
var changing = []struct {
	is *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`(\d+h)?\d+(\.\d+)?(ns|µs|ms|m|s)\b`), "TIME"},
	{regexp.MustCompile(`\d+(\.\d+)? [MG]B`), "SIZE"},
}

// findings writes what doctor --json has found wrong, in words, to the file found;
// what depends on the machine is left out. Scripts compare it with sentences that
// somebody has looked at.
func findings(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: findings")
	}
	var report struct {
		Checks []doctor.Check `json:"checks"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &report))
	var found strings.Builder
	for _, c := range report.Checks {
		if c.State == doctor.CheckOK || strings.HasPrefix(c.ID, "docker.") || c.ID == doctor.CheckKernel {
			continue
		}
		fmt.Fprintf(&found, "%s %s: %s\n", c.State, c.ID, c.What)
		if c.Next != "" {
			fmt.Fprintf(&found, "  → %s\n", c.Next)
		}
	}
	text := strings.ReplaceAll(found.String(), ts.Getenv("WORK"), "$WORK")
	text = strings.ReplaceAll(text, filepath.Join(ts.Getenv("BIN"), "gander"), "gander")
	for _, c := range changing {
		text = c.is.ReplaceAllString(text, c.by)
	}
	ts.Check(os.WriteFile(ts.MkAbs("found"), []byte(text), 0o600))
}

// expand FILE… puts the values of variables into files.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE…")
	}
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

// have knows the conditions [goose] and [opencode], the real ones, and [sandbox], namespaces.
// Where GANDER_CHECK is set everything was promised to be there, so that nothing skips.
func have(condition string) (bool, error) {
	promised := os.Getenv("GANDER_CHECK") == "1"
	if testing.Short() && (condition == "goose" || condition == "opencode") {
		return false, nil // they take seconds to start
	}
	switch condition {
	case "goose":
		if goosePath() == "" && promised {
			return false, errors.New("the real goose is missing (make agents)")
		}
		return goosePath() != "", nil
	case "opencode":
		if opencodePath() == "" && promised {
			return false, errors.New("the real opencode is missing (make agents)")
		}
		return opencodePath() != "", nil
	case "sandbox":
		return runtime.GOOS == "linux", nil
	case "unshare":
		_, err := exec.LookPath("unshare")
		works := err == nil && exec.Command("unshare", "-m", "true").Run() == nil && exec.Command("unshare", "-rm", "true").Run() == nil
		if !works && promised {
			return false, errors.New("unshare does not work here; it needs root")
		}
		return works, nil
	}
	return false, errors.New("unknown condition")
}

func goosePath() string {
	return agentPath("GANDER_GOOSE_CMD", "@aaif/goose-binary-linux-x64/bin/goose")
}

func opencodePath() string {
	return agentPath("GANDER_OPENCODE_CMD", "opencode-linux-x64/bin/opencode")
}

// agentPath is a real agent: the one of the environment, or of make agents.
func agentPath(variable, installed string) string {
	installed, err := filepath.Abs(filepath.Join("../../sandbox/node_modules", installed))
	if err != nil {
		return ""
	}
	for _, path := range []string{os.Getenv(variable), installed} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// json FILE [lines] fails for what is not JSON, or not lines of it.
func validJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: json FILE [lines]")
	}
	text := ts.ReadFile(args[0])
	if len(args) == 1 {
		if !json.Valid([]byte(text)) {
			ts.Fatalf("%s is not JSON", args[0])
		}
		return
	}
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20)
	n := 0
	for ; s.Scan(); n++ {
		if !json.Valid(s.Bytes()) {
			ts.Fatalf("line %d of %s is not JSON: %s", n+1, args[0], s.Text())
		}
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}

// cmpids FILE WANT compares the ids of doctor's checks.
func compareIDs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpids FILE WANT")
	}
	var report struct {
		Checks []doctor.Check `json:"checks"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &report))
	var ids strings.Builder
	for _, c := range report.Checks {
		ids.WriteString(c.ID + "\n")
	}
	if want := ts.ReadFile(args[1]); ids.String() != want {
		ts.Fatalf("the checks are\n%swant\n%s", ids.String(), want)
	}
}
