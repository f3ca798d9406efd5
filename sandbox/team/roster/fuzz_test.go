package roster

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reading holds the front matter of a manifest as it was read before there was gander: of lines
// "key: value", which may be in quotes, lists of one line or of lines with dashes, and two
// indented keys of delegation.
type reading struct {
	text       map[string]string
	tags       []string
	receive    bool
	delegate   bool
	found      bool
	beyondYAML bool // it has what the two read differently: comments behind values, escapes, words for maps and texts
}

func readOld(text string) reading {
	r := reading{text: map[string]string{}, receive: true}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, begins := strings.CutPrefix(text, "---\n")
	front, _, ends := strings.Cut(rest, "\n---\n")
	if r.found = begins && ends; !r.found {
		return r
	}
	lines := strings.Split(front, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if line == "" || line[0] == '#' || !ok || key == "" {
			continue
		}
		if _, twice := r.text[key]; twice || strings.ContainsAny(value, "#\\") || strings.Count(value, "'") > 2 || value != "" && strings.Contains("{|>", value[:1]) {
			r.beyondYAML = true
		}
		r.text[key] = oldUnquote(value)
		switch key {
		case "tags":
			if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
				r.beyondYAML = r.beyondYAML || strings.ContainsAny(value, `"'`) && strings.Contains(value, ",")
				for item := range strings.SplitSeq(value[1:len(value)-1], ",") {
					r.tags = append(r.tags, oldUnquote(strings.TrimSpace(item)))
				}
				continue
			}
			for ; i+1 < len(lines) && (lines[i+1] == "" || strings.HasPrefix(strings.TrimSpace(lines[i+1]), "- ")); i++ {
				if item := strings.TrimSpace(lines[i+1]); item != "" {
					r.beyondYAML = r.beyondYAML || strings.ContainsAny(item, `#\`)
					r.tags = append(r.tags, oldUnquote(strings.TrimSpace(item[1:])))
				}
			}
		case "delegation":
			for ; i+1 < len(lines) && (lines[i+1] == "" || strings.HasPrefix(lines[i+1], "  ")); i++ {
				name, is, _ := strings.Cut(strings.TrimSpace(lines[i+1]), ":")
				r.beyondYAML = r.beyondYAML || strings.ContainsAny(is, `#\`)
				into := map[string]*bool{"canReceive": &r.receive, "canDelegate": &r.delegate}[strings.TrimSpace(name)]
				if into == nil {
					continue
				}
				switch strings.ToLower(oldUnquote(strings.TrimSpace(is))) {
				case "true", "yes", "1":
					*into = true
				case "false", "no", "0":
					*into = false
				}
			}
		}
	}
	return r
}

func oldUnquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// FuzzManifest reads any file, or has one line say why not; and what was read before of the
// subset that was known then is read now.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		reviewer, "", "---", "---\n---\n", "---\r\nid: a\r\n---\r\n", "---\nname: \"a: b\"\ntags:\n- x\n- y\n---\nbody",
		"---\nid: a\nname: A\ndescription: Agent: of 3 @ things\nprovider: goose\ntags: [a, b]\ndelegation:\n  canReceive: true\n  canDelegate: false\npriority: 50\n---\n\nHi\n",
		"---\ndelegation: {canReceive: no}\nx:\n  y:\n    z\n---\n", "---\ntext: |\n  a\n\n  b\n---\n", "---\n- a\n---\n", "---\nname: '''\n---\n", "---\nname: [}]\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, problem := Parse("a", []byte(text))
		if problem != nil {
			if problem.Line < 1 || problem.Line > strings.Count(text, "\n")+1 || problem.Reason == "" || strings.Contains(problem.Reason, "\n") {
				t.Fatalf("problem %+v", problem)
			}
			return
		}
		if again, problem := Parse("a", []byte(format(m))); problem != nil || again.Name != m.Name || again.Description != m.Description || again.Provider != m.Provider || again.Model != m.Model ||
			!slices.Equal(again.Tags, m.Tags) || again.Delegation != m.Delegation || again.Priority != m.Priority {
			t.Fatalf("%+v\nwritten and read again is\n%+v, %v", m, again, problem)
		}
		old := readOld(text)
		if !old.found || old.beyondYAML {
			return
		}
		same := func(key, got, fallback string) {
			want, ok := old.text[key]
			if !ok || want == "" {
				want = fallback
			}
			if got != want {
				t.Errorf("%s: %q, was read as %q", key, got, want)
			}
		}
		same("name", m.Name, "a")
		same("provider", m.Provider, "")
		same("priority", strconv.Itoa(m.Priority), "50")
		if !slices.Equal(m.Tags, tags(old.tags)) {
			t.Errorf("tags %q, were read as %q", m.Tags, old.tags)
		}
		if m.Delegation != (Delegation{old.receive, old.delegate}) {
			t.Errorf("delegation %+v, was read as %v, %v", m.Delegation, old.receive, old.delegate)
		}
	})
}
