package changes

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// maxChanges is how many changes of a turn are listed and kept.
const maxChanges = 20_000

// maxChangedPaths is how many bytes their paths have together.
const maxChangedPaths = 4 << 20

// comparison is two manifests while they are compared.
type comparison struct {
	ctx     context.Context // until when similar files are looked for
	t       *Tree
	turn    *Turn
	heavy   map[string]*Heavy
	created map[Path]*entry // of regular files, for renames
	deleted map[Path]*entry
}

// compare says what is different. Listings that both share are the same. When ctx ends,
// only files of the same content are found to be renamed.
func (t *Tree) compare(ctx context.Context, before, after *manifest) *Turn {
	c := comparison{ctx: ctx, t: t, heavy: map[string]*Heavy{}, created: map[Path]*entry{}, deleted: map[Path]*entry{}}
	c.turn = &Turn{Started: before.at, Ended: time.Now(), HeadBefore: before.head, HeadAfter: after.head, NotCompared: notCompared(before, after)}
	for dir, now := range after.dirs {
		was := before.dirs[dir]
		if was == now || was == nil && before.covers(dir) {
			continue
		}
		c.directory(dir, was, now)
	}
	for dir, was := range before.dirs {
		if after.dirs[dir] == nil && !after.covers(dir) {
			c.directory(dir, was, nil)
		}
	}
	c.renames()
	c.finish()
	return c.turn
}

func (c *comparison) directory(dir string, was, now *listing) {
	heavy := c.heavyDir(dir)
	if now != nil {
		find := was.finder()
		for i := range now.entries {
			e := &now.entries[i]
			c.entry(heavy, dir, find(e.name, i), e)
		}
	}
	if was == nil {
		return
	}
	gone := map[string]bool{}
	if now != nil {
		for _, e := range now.entries {
			gone[e.name] = true
		}
	}
	for i := range was.entries {
		if e := &was.entries[i]; !gone[e.name] {
			c.entry(heavy, dir, e, nil)
		}
	}
}

// heavyDir is the count that a directory's changes go to; nil for most.
func (c *comparison) heavyDir(dir string) *Heavy {
	top := heavyTop(dir)
	if top == "" {
		return nil
	}
	if c.heavy[top] == nil {
		c.heavy[top] = &Heavy{Dir: Path(top)}
	}
	return c.heavy[top]
}

func (c *comparison) entry(heavy *Heavy, dir string, was, now *entry) {
	if was != nil && was.hidden || now != nil && now.hidden || was != nil && now != nil && same(was, now) {
		return
	}
	if heavy != nil {
		heavy.count(was, now)
		return
	}
	rel := Path(join(dir, cmp.Or(now, was).name))
	change := Change{Path: rel, Kind: Modified, Before: c.file(was), After: c.file(now)}
	switch {
	case was == nil:
		change.Kind = Created
		if now.kind == kindFile {
			c.created[rel] = now
		}
	case now == nil:
		change.Kind = Deleted
		if was.kind == kindFile {
			c.deleted[rel] = was
		}
	}
	c.turn.Changes = append(c.turn.Changes, change)
}

// same says that a name has the same content and mode as before.
func same(was, now *entry) bool {
	if was.kind != now.kind || was.mode != now.mode {
		return false
	}
	switch {
	case now.kind == kindDir:
		return true
	case was.read && now.read:
		return was.sum == now.sum
	}
	return was.stamp == now.stamp
}

func (h *Heavy) count(was, now *entry) {
	e := cmp.Or(now, was)
	switch {
	case e.kind == kindDir:
	case was == nil:
		h.Created++
	case now == nil:
		h.Deleted++
	default:
		h.Modified++
	}
}

func (c *comparison) file(e *entry) *File {
	if e == nil {
		return nil
	}
	f := &File{Mode: modeText(e.mode), Size: e.size}
	switch e.kind {
	case kindFile:
		f.Type = TypeFile
	case kindLink:
		f.Type = TypeLink
	case kindDir:
		f.Type = TypeDir
	default:
		f.Type = TypeSpecial
	}
	if e.read {
		f.Sum, f.Kept = hex.EncodeToString(e.sum[:]), c.t.store.has(e.sum)
	}
	return f
}

// modeText is a mode as a [File] has it.
func modeText(mode fs.FileMode) string { return fmt.Sprintf("%04o", uint32(mode)) }

// renames makes one change of a deletion and a creation of the same file: the same
// content, or the same inode and most of the content.
func (c *comparison) renames() {
	if len(c.created) == 0 || len(c.deleted) == 0 {
		return
	}
	bySum, byInode := map[sum]Path{}, map[inode]Path{}
	for _, p := range slices.Sorted(maps.Keys(c.deleted)) {
		e := c.deleted[p]
		if e.read && e.size > 0 {
			bySum[e.sum] = p
		}
		byInode[inode{e.dev, e.ino}] = p
	}
	from := map[Path]Path{} // of the new name
	taken := map[Path]bool{}
	for _, p := range slices.Sorted(maps.Keys(c.created)) {
		e := c.created[p]
		old, ok := byInode[inode{e.dev, e.ino}]
		ok = ok && !taken[old] && c.similar(c.deleted[old], e)
		if !ok {
			old, ok = bySum[e.sum]
			ok = ok && e.read && !taken[old]
		}
		if ok {
			from[p], taken[old] = old, true
		}
	}
	c.merge(from, taken)
}

func (c *comparison) merge(from map[Path]Path, taken map[Path]bool) {
	before := map[Path]*File{}
	for _, ch := range c.turn.Changes {
		if taken[ch.Path] {
			before[ch.Path] = ch.Before
		}
	}
	c.turn.Changes = slices.DeleteFunc(c.turn.Changes, func(ch Change) bool { return taken[ch.Path] && ch.Kind == Deleted })
	for i := range c.turn.Changes {
		ch := &c.turn.Changes[i]
		if old, ok := from[ch.Path]; ok {
			ch.Kind, ch.From, ch.Before = Renamed, old, before[old]
		}
	}
}

// maxSimilar is the size up to which two files are compared line by line for a rename.
const maxSimilar = 256 << 10

// similar says whether at least half of the lines are the same. An inode alone
// says little: the next file may get that of the one just deleted.
func (c *comparison) similar(was, now *entry) bool {
	if was.read && now.read && was.sum == now.sum {
		return true
	}
	if c.ctx.Err() != nil || !was.read || !now.read || max(was.size, now.size) > maxSimilar || was.size == 0 {
		return false
	}
	a, err := c.t.store.get(was.sum)
	if err != nil {
		return false
	}
	b, err := c.t.store.get(now.sum)
	if err != nil {
		return false
	}
	return similarity(a, b) >= 50
}

// finish sorts and bounds the result.
func (c *comparison) finish() {
	slices.SortFunc(c.turn.Changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	n := listed(c.turn.Changes)
	c.turn.Changes, c.turn.More = c.turn.Changes[:n], len(c.turn.Changes)-n
	for _, dir := range slices.Sorted(maps.Keys(c.heavy)) {
		if h := c.heavy[dir]; h.Created+h.Modified+h.Deleted > 0 {
			c.turn.Heavy = append(c.turn.Heavy, *h)
		}
	}
}

// listed is how many of the changes are within the bounds.
func listed(all []Change) int {
	bytes := 0
	for i, c := range all {
		if bytes += len(c.Path) + len(c.From); i == maxChanges || bytes > maxChangedPaths {
			return i
		}
	}
	return len(all)
}
