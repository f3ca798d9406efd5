package demo

import (
	"bytes"
	"strings"
	"testing"
)

// What the demo's commands find inside breaks the promise it is about.
func TestDemoChecksInside(t *testing.T) {
	const good = "processes that have the key: 0\ncat: private.txt: No such file or directory\nConnection refused\ntried\n"
	for _, tt := range []struct {
		name, output string
		broken       int
	}{
		{"closed", good, 0},
		{"a key", strings.Replace(good, "key: 0", "key: 2", 1), 1},
		{"a file", strings.Replace(good, "cat: private.txt", demoCanary, 1), 1},
		{"the network", strings.Replace(good, "Connection refused", "reached", 1), 1},
		{"nothing was tried", "", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port, err := openTrap()
			if err != nil {
				t.Fatal(err)
			}
			defer port.close()
			d := &demo{port: port, show: &stage{out: new(bytes.Buffer)}}
			d.checkInside("\n" + tt.output)
			broken := 0
			for _, p := range d.show.promises {
				if !p.kept {
					broken++
				}
			}
			if broken != tt.broken {
				t.Errorf("%d promises broken, want %d: %+v", broken, tt.broken, d.show.promises)
			}
		})
	}
}
