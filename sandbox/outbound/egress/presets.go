package egress

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// presetTable has the hosts that common tools need, a row each. Storage that anybody can
// rent a piece of under the same name is in none of them. Mirrors of distributions have plain
// HTTP, too: their package managers check signatures.
//
//go:embed presets.tsv
var presetTable string

// PresetRow is a host of a preset.
type PresetRow struct {
	Preset string `json:"preset"`
	// Rule is as ParseRule takes it.
	Rule string `json:"host"`
	// Source is the page that names the host, and Written the day on which the row was.
	Source  string `json:"source"`
	Written string `json:"written"`
}

// PresetRows returns the hosts of all presets.
func PresetRows() []PresetRow {
	var rows []PresetRow
	_, text, _ := strings.Cut(presetTable, "\n") // the heading
	for line := range strings.Lines(text) {
		f := append(strings.Split(strings.TrimSpace(line), "\t"), "", "", "")
		rows = append(rows, PresetRow{f[0], f[1], f[2], f[3]})
	}
	return rows
}

// Presets are the names that Preset knows.
func Presets() []string {
	var names []string
	for _, row := range PresetRows() {
		names = append(names, row.Preset)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Preset is the rules that a name stands for.
func Preset(name string) ([]Rule, error) {
	var rules []Rule
	for _, row := range PresetRows() {
		if row.Preset != name {
			continue
		}
		r, err := ParseRule(row.Rule)
		if err != nil {
			return nil, fmt.Errorf("the preset %s: %w", name, err)
		}
		rules = append(rules, r.By("preset "+name))
	}
	if rules == nil {
		return nil, fmt.Errorf("there is no preset %q for hosts; choose from %s, or name the hosts", name, strings.Join(Presets(), ", "))
	}
	return rules, nil
}
