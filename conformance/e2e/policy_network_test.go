package e2e

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/conformance/sitetest"
)

// With hosts allowed, agents still reach their model, and their commands what is
// allowed, plainly and by TLS: here addresses of this machine that are not public, named
// with their ports.
func TestAllowedHost(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		plain := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, "the site answers") }))
		git := sitetest.Git(t, "the repository answers")
		secure, closed := httptest.NewUnstartedServer(git), httptest.NewUnstartedServer(git)
		outside := outsideAddress(t)
		for _, site := range []*httptest.Server{plain, secure, closed} {
			l, err := net.Listen("tcp", net.JoinHostPort(outside, "0"))
			if err != nil {
				t.Fatal(err)
			}
			_ = site.Listener.Close()
			site.Listener = l
			site.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that are cut off
			t.Cleanup(site.Close)
		}
		var trusted []byte
		secure.TLS, trusted = sitetest.Certified(t, outside)
		closed.TLS = secure.TLS
		plain.Start()
		secure.StartTLS()
		closed.StartTLS()
		w.write(w.mkdir("gander"), "config.json", fmt.Sprintf(`{"policy": {"network": {"allow": [%q, %q]}}}`, plain.Listener.Addr(), secure.Listener.Addr()))
		project := w.mkdir("project")
		w.write(project, "trusted.pem", string(trusted))
		e := w.gander(nil)
		e.initialize()
		s := e.session(project)
		get := func(address string) string {
			return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf 'GET http://%s/ HTTP/1.0\r\n\r\n' >&3; cat <&3`, address)
		}
		clone := func(site *httptest.Server) string {
			return fmt.Sprintf(`d=$(mktemp -d) && GIT_SSL_CAINFO=$PWD/trusted.pem git clone -q https://%s/tiny.git "$d/x" && cat "$d/x/file"`, site.Listener.Addr())
		}
		asked := []string{get(plain.Listener.Addr().String()), get("10.0.0.1"), clone(secure), clone(closed)}
		turn := s.prompt(script(t, w.shell(strings.Join(asked, "; ")), says("done"))).done("end_turn")
		tool, _ := turn.tool(0)
		said := tool.text()
		for _, want := range []string{"the site answers", "403 Forbidden", "the repository answers", "response 403"} {
			if strings.Count(said, want) != 1 {
				t.Errorf("%q is not there, or more than once, in: %s", want, said)
			}
		}
	})
}

// A host that no rule names is asked about while a program waits for it. The answer
// for the project counts in later sessions, until the person takes it back. That the
// host does not exist makes no difference: it is decided about before it is looked up.
func TestHostIsAskedFor(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		const host = "new.invalid:80"
		w.write(w.mkdir("gander"), "config.json", `{"policy": {"network": {"ask": true}}}`)
		project := w.mkdir("project")
		turn := func(option string) string {
			t.Helper()
			e := w.gander(nil)
			e.initialize()
			p := e.session(project).prompt(script(t, w.shell(`exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf 'GET http://`+host+`/ HTTP/1.0\r\n\r\n' >&3; cat <&3`), says("done")))
			if option != "" {
				ask := e.permission(1)
				if !strings.Contains(ask.ToolCall.Title, host) {
					t.Errorf("the person is asked about %q", ask.ToolCall.Title)
				}
				ask.Options = slices.DeleteFunc(ask.Options, func(o permissionOption) bool { return o.OptionID != option })
				e.choose(ask, ask.Options[0].Kind)
			}
			done := p.done("end_turn")
			if n := len(e.asked); n > 1 || option == "" && n > 0 {
				t.Errorf("%d questions", n)
			}
			e.end()
			for i := range 2 { // the command, and what is asked about
				if tool, ok := done.tool(i); ok && strings.Contains(tool.text(), "HTTP/1.") {
					return tool.text()
				}
			}
			t.Fatal("the command shows no answer of the proxy")
			return ""
		}
		permissions := func(args ...string) string {
			t.Helper()
			said, code := w.run(t, w.ganderEnv(nil), append([]string{needGander(t), "session", "permissions"}, append(args, "--cwd", project)...)...)
			if code != 0 {
				t.Errorf("session permissions %v: exit code %d", args, code)
			}
			return said
		}
		const refused, allowed = "403 Forbidden", "502 Bad Gateway"
		for _, step := range []struct{ option, want string }{{"deny", refused}, {"session", allowed}, {"project", allowed}, {"", allowed}} {
			if said := turn(step.option); !strings.Contains(said, step.want) {
				t.Errorf("answer %q: %s", step.option, said)
			}
		}
		list := permissions("list")
		line := list[strings.LastIndex(strings.TrimSpace(list), "\n")+1:]
		if !strings.Contains(line, "always") || !strings.Contains(line, "connect to "+host) {
			t.Errorf("remembered: %s", list)
		}
		permissions("revoke", strings.Fields(line)[0])
		if said := turn("deny"); !strings.Contains(said, refused) {
			t.Errorf("taken back, and: %s", said)
		}
	})
}
