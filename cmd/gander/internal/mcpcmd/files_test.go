package mcpcmd

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"gander.dev/gander/developer"
)

// What goes through the doors of a sandbox is written without escapes that nobody needs:
// markup would be six times as long, and longer than a line may be.
func TestMarkupAtTheDoors(t *testing.T) {
	text := strings.Repeat("<b>&</b>", 1000)
	for name, send := range map[string]func(conn net.Conn){
		"files": func(conn net.Conn) {
			_ = (&filesSide{conn: conn, lines: bufio.NewScanner(conn)}).WriteTextFile("/x", text)
		},
		"output": func(conn net.Conn) {
			s := newOutputSide(conn)
			s.output()("shell", nil, developer.Output{Text: text})
			s.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			go send(there)
			line, err := bufio.NewReader(here).ReadString('\n')
			if err != nil || !strings.Contains(line, text) {
				t.Errorf("%d bytes for a text of %d, %v", len(line), len(text), err)
			}
			_ = here.Close()
		})
	}
}
