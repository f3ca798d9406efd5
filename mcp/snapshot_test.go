package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/developer"
)

// What clients see of each tool is a contract: a change has to be meant, and
// recorded with -update.
func TestToolSnapshots(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("descriptions name the shell, which is another one there")
	}
	for _, profile := range developer.Profiles() {
		t.Run(string(profile), func(t *testing.T) {
			dir := filepath.Join("testdata", "tools", string(profile))
			tools := listed(t, developer.Options{Profile: profile, WorkingDir: t.TempDir(), Jobs: true, Keeper: developer.KeptByKernel})
			if *update {
				record(t, dir, tools)
			}
			want, err := filepath.Glob(filepath.Join(dir, "*.json"))
			if err != nil || len(want) != len(tools) {
				t.Errorf("%d snapshots of %d tools, %v", len(want), len(tools), err)
			}
			for name, got := range tools {
				recorded, err := os.ReadFile(filepath.Join(dir, name+".json"))
				if err != nil {
					t.Errorf("a new tool: %v", err)
				} else if diff := cmp.Diff(string(recorded), got); diff != "" {
					t.Errorf("%s (-recorded +now):\n%s", name, diff)
				}
			}
		})
	}
}

func record(t *testing.T, dir string, tools map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range tools {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listed is tools/list as a client gets it, by name, indented.
func listed(t *testing.T, o developer.Options) map[string]string {
	t.Helper()
	set, err := developer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, set, Options{})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(p.receive().Result, &list); err != nil {
		t.Fatal(err)
	}
	if err := p.hangUp(); err != nil {
		t.Error(err)
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	tools := map[string]string{}
	for _, raw := range list.Tools {
		raw = withoutCgo.ReplaceAll(raw, nil)
		var tool struct{ Name string }
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := json.Indent(&text, raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = text.String() + "\n"
	}
	return tools
}

// withoutCgo is what a build without cgo says in addition.
var withoutCgo = regexp.MustCompile(` This build parses Go only: [^"]*need\.`)

// The inventories are what goose had; the tool for jobs is there when asked for.
func TestInventories(t *testing.T) {
	for profile, want := range map[developer.Profile]string{
		developer.Classic: "analyze image_processor list_windows screen_capture shell text_editor",
		developer.Current: "analyze edit read_image shell tree write",
	} {
		for jobs, more := range map[bool]string{false: "", true: " jobs"} {
			var got []string
			for name := range listed(t, developer.Options{Profile: profile, WorkingDir: t.TempDir(), Jobs: jobs}) {
				got = append(got, name)
			}
			names := strings.Fields(want + more)
			slices.Sort(names)
			slices.Sort(got)
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("%s, jobs %v (-want +got):\n%s", profile, jobs, diff)
			}
		}
	}
}
