package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/outbound/egress"
	"gander.dev/gander/sandbox/rules/policy"
)

// The configuration knows the presets that there are.
func TestPresetsAreKnown(t *testing.T) {
	field, _ := reflect.TypeFor[policy.Network]().FieldByName("Presets")
	names := strings.Split(field.Tag.Get("enum"), ",")
	if slices.Sort(names); !slices.Equal(names, egress.Presets()) {
		t.Errorf("the configuration takes the presets %q, there are %q", names, egress.Presets())
	}
}
