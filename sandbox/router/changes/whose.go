package changes

import "path"

// Owner says who made a change that a turn found.
type Owner int

// The owners of a change.
const (
	Own    Owner = iota // the turn
	Others              // not the turn
	Unsure              // perhaps the turn
)

// attribute takes out of a turn's changes what others made, and marks what perhaps they did.
// whose is asked about absolute paths.
func (t *Turn) attribute(whose func(paths []string) []Owner) {
	var paths []string
	for _, c := range t.Changes {
		paths = append(paths, t.Host(c.Path), t.Host(c.From))
	}
	if len(paths) == 0 {
		return
	}
	owners := whose(paths)
	var kept []Change
	for i, c := range t.Changes {
		owner := owners[2*i]
		if c.From != "" {
			owner = min(owner, owners[2*i+1])
		}
		switch {
		case owner == Others && c.isDir():
		case owner == Others && len(t.Others) < maxChanges:
			t.Others = append(t.Others, c.Path)
		case owner != Others:
			c.Unsure = owner == Unsure
			kept = append(kept, c)
		}
	}
	t.Changes = kept
}

// Host is the absolute path of a change, for an editor.
func (t *Turn) Host(p Path) string { return path.Join(t.Root, string(p)) }
