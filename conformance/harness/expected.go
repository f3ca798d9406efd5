package harness

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ParseExpected reads a list of expected failures: on each line the id of a check
// and the reason, which is required. Blank lines and lines that begin with # are
// for people. known says whether there is a check with an id.
func ParseExpected(in io.Reader, known func(id string) bool) (map[string]string, error) {
	expected := map[string]string{}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		reason = strings.TrimSpace(reason)
		switch {
		case reason == "":
			return nil, fmt.Errorf("line %d: %s has no reason; write it behind the id", n, id)
		case !known(id):
			return nil, fmt.Errorf("line %d: there is no check %q; --list prints them", n, id)
		case expected[id] != "":
			return nil, fmt.Errorf("line %d: %s is there twice", n, id)
		}
		expected[id] = reason
	}
	return expected, lines.Err()
}
