package providers

import (
	"net/url"
	"regexp"
	"testing"
	"time"
)

// Each row is complete, is found by each of its names alone, and says where it is from and of when.
func TestTable(t *testing.T) {
	variable := regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	seen := map[string]bool{}
	for _, p := range All() {
		for _, name := range append([]string{p.Name}, p.Also...) {
			if found, ok := Find(name); !ok || found.Name != p.Name || seen[name] {
				t.Errorf("%s is found as %q, or is there twice", name, found.Name)
			}
			seen[name] = true
		}
		if _, err := time.Parse(time.DateOnly, p.Date); err != nil || p.Title == "" {
			t.Errorf("%s: the title or the date is missing: %v", p.Name, err)
		}
		if source, err := url.Parse(p.Source); err != nil || source.Scheme != "https" {
			t.Errorf("%s: the source is %q", p.Name, p.Source)
		}
		if (p.Not == "") != (p.BaseURL != "") {
			t.Errorf("%s: it has an address, or the reason why it cannot be used", p.Name)
		}
		if p.Protocol != "" && p.Protocol != Anthropic {
			t.Errorf("%s: nobody speaks %q", p.Name, p.Protocol)
		}
		if p.KeyVariable != "" && !variable.MatchString(p.KeyVariable) {
			t.Errorf("%s: %q is not the name of a variable", p.Name, p.KeyVariable)
		}
		values := map[string]string{}
		for _, name := range p.Places() {
			values[name] = "x"
		}
		if u, err := url.Parse(p.Fill(values)); err != nil || p.Not == "" && (u.Host == "" || u.RawQuery != "") || place.MatchString(p.Fill(values)) {
			t.Errorf("%s: the address %q: %v", p.Name, p.Fill(values), err)
		}
	}
}

func TestFill(t *testing.T) {
	p := Provider{BaseURL: "https://{location}.example/{project}/{location}"}
	if got := p.Fill(map[string]string{"location": "eu", "project": "p"}); got != "https://eu.example/p/eu" {
		t.Error(got)
	}
	if got := p.Places(); len(got) != 2 || got[0] != "location" || got[1] != "project" {
		t.Error(got)
	}
}
