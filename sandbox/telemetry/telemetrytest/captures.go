// Package telemetrytest checks what is made of the captured output of agents. A capture
// is a txtar file: its comment begins with "exit code N", its first file is what was
// printed, its second the events and the verdict that are expected, as JSON lines.
package telemetrytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"gander.dev/gander/sandbox/telemetry"
)

// Captures compares what parsers make of the captures that a pattern matches with what
// is expected; update rewrites that instead.
func Captures(t *testing.T, pattern string, parser func() telemetry.Parser, update bool) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var exit telemetry.Exit
			if _, err := fmt.Sscanf(string(a.Comment), "exit code %d", &exit.Code); err != nil {
				t.Fatal(err)
			}
			got := events(t, parser(), a.Files[0].Data, exit)
			if update {
				a.Files[1].Data = got
				if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[1].Data), string(got)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// Fuzz feeds parsers with anything, beginning with the captures: whatever is printed is
// taken, and every event can be sent.
func Fuzz(f *testing.F, pattern string, parser func() telemetry.Parser) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, printed []byte) { events(t, parser(), printed, telemetry.Exit{}) })
}

// events are those of one iteration and its verdict, a line of JSON each.
func events(t testing.TB, p telemetry.Parser, printed []byte, exit telemetry.Exit) []byte {
	t.Helper()
	var all []telemetry.Event
	for line := range bytes.Lines(printed) {
		all = append(all, p.Line(line)...)
	}
	rest, verdict := p.End(exit)
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for _, e := range append(all, rest...) {
		e.Cap()
		if err := lines.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Encode(verdict); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
