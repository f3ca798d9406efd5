package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gander.dev/gander/sandbox/rules/policy"
)

const personsPolicy = `{
  "sandbox": {"readOnlyPaths": ["/opt/old"], "environment": ["LANG"]},
  "policy": {
    "readOnlyPaths": ["/opt/sdk"],
    "writes": {"protect": ["@ci"], "allow": [".vscode/settings.json"]},
    "git": "refuse",
    "network": {"allow": ["github.com:443"], "presets": ["go"]},
    "model": {"allow": ["gpt-*"], "maxTokens": 1000, "maxCost": 2.5, "prices": {"gpt-4.1": {"input": 2, "output": 8}}},
    "canaries": "stop",
    "limits": {"memory": "2GB", "cpu": 1.5, "processes": 500, "disk": "512MiB", "time": "1h"}
  }
}`

func TestPolicyOfThePerson(t *testing.T) {
	c := mustLoad(t, personsPolicy, "")
	want := policy.Policy{
		ReadOnlyPaths: []string{"/opt/sdk", "/opt/old"}, Environment: []string{"LANG"},
		Writes:  policy.Writes{Protect: []string{"@ci"}, Allow: []string{".vscode/settings.json"}},
		Git:     "refuse",
		Network: policy.Network{Allow: []string{"github.com:443"}, Presets: []string{"go"}},
		Model: policy.Model{
			Allow: []string{"gpt-*"}, MaxTokens: 1000, MaxCost: 2.5,
			Prices: map[string]policy.Price{"gpt-4.1": {Input: 2, Output: 8}},
		},
		Canaries: "stop",
		Limits: policy.Limits{
			Memory: 2 << 30, CPU: 1.5, Processes: 500, Disk: 512 << 20, Time: policy.Duration(time.Hour),
		},
	}
	if diff := cmp.Diff(want, c.Policy); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.ReadOnlyPaths, c.Sandbox.ReadOnlyPaths); diff != "" {
		t.Errorf("the older name: %s", diff)
	}
	e := c.EffectivePolicy()
	user := filepath.Join(c.Home, UserFile)
	for _, tt := range []struct {
		key, value string
		line       int
	}{
		{"readOnlyPaths", "/opt/old", 2},
		{"readOnlyPaths", "/opt/sdk", 4},
		{"git", "", 6},
		{"network.allow", "github.com:443", 7},
		{"model.prices", "gpt-4.1", 8},
	} {
		if got := e.Origin(tt.key, tt.value); got != (policy.Origin{File: user, Line: tt.line}) {
			t.Errorf("%s %s is from %v, want line %d", tt.key, tt.value, got, tt.line)
		}
	}
	if got := mustLoad(t, "", "").Policy; cmp.Diff(policy.Default(), got) != "" {
		t.Errorf("without files: %+v", got)
	}
}

func TestPolicyErrors(t *testing.T) {
	for _, tt := range []struct{ section, want string }{
		{`{"gti": "warn"}`, `policy.gti: unknown key; did you mean "git"?`},
		{`{"model": {"currency": "dollars"}}`, `policy.model.currency: "dollars" is no code of a currency`},
		{`{"git": "hid"}`, `policy.git: "hid" is not one of warn, refuse, hide`},
		{`{"network": {"presets": ["gopher"]}}`, `policy.network.presets[0]: "gopher" is not one of go, npm`},
		{`{"network": {"allow": ["https://github.com"]}}`, `policy.network.allow[0]: "https://github.com" is not a host and port`},
		{`{"writes": {"allow": ["@editors"]}}`, `policy.writes.allow[0]: there is no group "@editors"`},
		{`{"writes": {"protect": ["../x"]}}`, `policy.writes.protect[0]: "../x" is not a pattern`},
		{`{"limits": {"memory": "much"}}`, `policy.limits.memory: "much" is not a size`},
		{`{"limits": {"memory": 5}}`, `policy.limits.memory: want a string`},
		{`{"limits": {"time": "-1s"}}`, `policy.limits.time: "-1s" is not a duration`},
		{`{"limits": {"processes": -1}}`, `policy.limits.processes: -1 is not a whole number from 0`},
		{`{"limits": {"cpu": 0.001}}`, `policy.limits.cpu: 0.001 of a processor is less than kernels give`},
		{`{"limits": {"cpu": "2"}}`, `policy.limits.cpu: want a number, got a string`},
		{`{"model": {"maxTokens": 1.5}}`, `policy.model.maxTokens: 1.5 is not a whole number`},
		{`{"model": {"allow": [" "]}}`, `policy.model.allow[0]: is empty`},
		{`{"environment": ["GITHUB_TOKEN"]}`, `policy.environment[0]: GITHUB_TOKEN holds a secret`},
		{`{"readOnlyPaths": ["src"]}`, `policy.readOnlyPaths[0]: "src" is not an absolute path`},
	} {
		if _, err := loadWith(t, `{"policy": `+tt.section+`}`, ""); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.section, err, tt.want)
		}
	}
}

// TestProjectOnlyTightens: what a repository's file wants beyond the person's is
// not granted until exactly this content is trusted.
func TestProjectOnlyTightens(t *testing.T) {
	project := `{"policy": {
		"readOnlyPaths": ["/etc/ssh"], "environment": ["DISPLAY"],
		"writes": {"protect": ["deploy"], "allow": ["@git"]},
		"git": "hide", "canaries": "off",
		"network": {"allow": ["evil.example:443"], "presets": ["npm"], "ask": true},
		"model": {"allow": ["gpt-4.1", "other"], "remote": true, "maxTokens": 5000, "maxCost": 1, "prices": {"gpt-4.1": {"input": 0}}},
		"limits": {"memory": "1GB", "processes": 0}
	}}`
	o := Options{Home: t.TempDir(), ProjectDir: t.TempDir()}
	write(t, filepath.Join(o.Home, UserFile), personsPolicy)
	file := filepath.Join(o.ProjectDir, ProjectFile)
	write(t, file, project)
	load := func() *Config {
		t.Helper()
		c, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load()
	p := c.Policy
	if p.Git != "hide" || p.Canaries != "stop" || p.Model.MaxCost != 1 || p.Model.MaxTokens != 1000 || p.Limits.Memory != 1<<30 || p.Limits.Processes != 500 {
		t.Errorf("single values: %+v", p)
	}
	if p.Network.Ask || p.Model.Remote || len(p.Network.Allow) != 1 || len(p.Network.Presets) != 1 || len(p.ReadOnlyPaths) != 2 || len(p.Environment) != 1 || p.Model.Prices["gpt-4.1"].Input != 2 {
		t.Errorf("something was granted: %+v", p)
	}
	if diff := cmp.Diff(policy.Writes{Protect: []string{"@ci", "deploy"}, Allow: []string{".vscode/settings.json"}}, p.Writes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gpt-4.1"}, p.Model.Allow); diff != "" {
		t.Error(diff)
	}
	var asked []string
	for _, r := range c.EffectivePolicy().Refused {
		asked = append(asked, r.Key+"="+r.Value)
		if r.Origin.File != file || r.Origin.Line == 0 {
			t.Errorf("%v does not say where it is from", r)
		}
	}
	want := []string{
		"readOnlyPaths=/etc/ssh", "environment=DISPLAY", "writes.allow=@git", "network.allow=evil.example:443", "network.presets=npm", "network.ask=true",
		"model.allow=other", "model.remote=true", "model.maxTokens=5000", "model.prices=gpt-4.1 (input 0, output 0)", "canaries=off", "limits.processes=0",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}

	if err := c.Trust(); err != nil {
		t.Fatal(err)
	}
	c = load()
	p = c.Policy
	if !c.ProjectTrusted() || len(c.EffectivePolicy().Refused) > 0 || p.Canaries != "off" || !p.Network.Ask || !p.Model.Remote || p.Limits.Processes != 0 || len(p.Network.Allow) != 2 || p.Model.MaxTokens != 5000 {
		t.Errorf("trusted: %v, %+v", c.EffectivePolicy().Refused, p)
	}
	write(t, file, project+"\n") // an agent, say
	if c = load(); c.ProjectTrusted() || len(c.EffectivePolicy().Refused) != len(want) {
		t.Errorf("a changed file is still trusted: %+v", c.Policy)
	}
	files, err := filepath.Glob(filepath.Join(o.Home, "trusted", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the record of the trust: %v, %v", info.Mode(), err)
	}
}

// TestTrustGrantsWhatWasShown: when the person's own file is tightened later, a trusted
// project's looser values are asked for again.
func TestTrustGrantsWhatWasShown(t *testing.T) {
	o := Options{Home: t.TempDir(), ProjectDir: t.TempDir()}
	load := func(person string) *Config {
		t.Helper()
		write(t, filepath.Join(o.Home, UserFile), `{"policy": `+person+`}`)
		c, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	asked := func(c *Config) (all []string) {
		for _, r := range c.EffectivePolicy().Refused {
			all = append(all, r.Key+"="+r.Value)
		}
		return all
	}
	file := filepath.Join(o.ProjectDir, ProjectFile)
	write(t, file, `{"policy": {"canaries": "show", "network": {"allow": ["a.example:443"]}, "model": {"allow": ["small", "large"], "maxCost": 50}}}`)
	if err := load(`{"network": {"allow": ["b.example:443"]}}`).Trust(); err != nil {
		t.Fatal(err)
	}
	c := load(`{"canaries": "stop", "model": {"allow": ["small"], "maxCost": 5}}`)
	if diff := cmp.Diff([]string{"model.allow=large", "model.maxCost=50", "canaries=show"}, asked(c)); diff != "" {
		t.Error(diff)
	}
	p := c.Policy
	if !c.ProjectTrusted() || p.Canaries != "stop" || p.Model.MaxCost != 5 || len(p.Model.Allow) != 1 {
		t.Errorf("the person's own was loosened: %+v", p)
	}
	if diff := cmp.Diff([]string{"a.example:443"}, p.Network.Allow); diff != "" {
		t.Errorf("what was granted: %s", diff)
	}
	if o := c.EffectivePolicy().Origin("network.allow", "a.example:443"); o.File != file || o.Line != 1 {
		t.Errorf("it is from %v", o)
	}
	if err := c.Trust(); err != nil {
		t.Fatal(err)
	}
	c, err := c.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Policy; len(asked(c)) > 0 || p.Canaries != "show" || p.Model.MaxCost != 50 || len(p.Model.Allow) != 2 || len(p.Network.Allow) != 1 {
		t.Errorf("after it was shown: %v, %+v", asked(c), p)
	}

	records, err := filepath.Glob(filepath.Join(o.Home, "trusted", "*"))
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	record, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, records[0], strings.Replace(string(record), `"granted"`, `"ignored"`, 1)) // as gander wrote it before
	if c = load(`{}`); c.ProjectTrusted() || len(asked(c)) != 1 {
		t.Errorf("trust without what was shown counts: %v", asked(c))
	}
}

// TestProjectDoesNotRaiseDefaults: where the person has set no bound, that of a sandbox by
// default holds, and no larger one of a repository's file.
func TestProjectDoesNotRaiseDefaults(t *testing.T) {
	c := mustLoad(t, "", `{"policy": {"limits": {"memory": "900TB", "processes": 4000000, "disk": "900TB"}}}`)
	var asked []string
	for _, r := range c.EffectivePolicy().Refused {
		asked = append(asked, r.Key+"="+r.Value)
	}
	if diff := cmp.Diff([]string{"limits.memory=900TB", "limits.processes=4000000", "limits.disk=900TB"}, asked); diff != "" {
		t.Error(diff)
	}
	if c.Policy.Limits != (policy.Limits{}) {
		t.Errorf("held is %+v", c.Policy.Limits)
	}
	small := `{"policy": {"limits": {"memory": "1GB", "cpu": 64, "processes": 4096, "disk": "512MB", "time": "9h"}}}`
	c = mustLoad(t, "", small)
	want := policy.Limits{Memory: 1 << 30, CPU: 64, Processes: 4096, Disk: 512 << 20, Time: policy.Duration(9 * time.Hour)}
	if c.Policy.Limits != want || len(c.EffectivePolicy().Refused) > 0 {
		t.Errorf("held is %+v, refused %v", c.Policy.Limits, c.EffectivePolicy().Refused)
	}
}

// TestTrustShowsWhatItGrants: an empty list of models, which allows all, is asked for
// as everything else that widens the person's policy.
func TestTrustShowsWhatItGrants(t *testing.T) {
	project := `{"policy": {"model": {"allow": []}, "network": {"allow": ["good.example:443"]}}}`
	c := mustLoad(t, personsPolicy, project)
	if diff := cmp.Diff([]string{"gpt-*"}, c.Policy.Model.Allow); diff != "" {
		t.Error(diff)
	}
	var asked []string
	for _, r := range c.EffectivePolicy().Refused {
		asked = append(asked, r.Key+"="+r.Value)
	}
	if diff := cmp.Diff([]string{"network.allow=good.example:443", "model.allow=any"}, asked); diff != "" {
		t.Error(diff)
	}
	if asked := mustLoad(t, "", `{"policy": {"model": {"allow": []}}}`).EffectivePolicy().Refused; len(asked) > 0 {
		t.Errorf("asked for what the person allows: %v", asked)
	}
}
