package mcp

import (
	"slices"
	"strings"
	"sync"
)

// client is what is known about the peer, and what follows from it.
type client struct {
	// mu guards what follows.
	mu      sync.Mutex
	name    string
	version string // of the protocol
	level   string // that it set for log messages
	agent   bool   // it sends goose's metadata, whatever it calls itself
}

// introduced notes what initialize said.
func (c *client) introduced(name, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.version = strings.ToLower(name), version
}

func (c *client) note(m meta) {
	if !m.agent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agent = true
}

func (c *client) setLevel(level string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
}

// isGoose tells goose by its name. Under goose acp it bears the editor's name, and
// is known only when its metadata has come.
func (c *client) isGoose() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.HasPrefix(c.name, "goose")
}

// batches reports whether the agreed revision has JSON-RPC batches.
func (c *client) batches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version == "2024-11-05" || c.version == "2025-03-26"
}

// structures reports whether the agreed revision has structured results.
func (c *client) structures() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version >= "2025-06-18"
}

// showsTextOnly reports whether the client keeps structured results from its model. Under
// goose acp only the metadata of a call tells.
func (c *client) showsTextOnly() bool { return c.isGoose() || c.nameIs("opencode") }

// levels are those of log messages, the least important first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wantsOutput reports whether messages of the level info are wanted; they are
// until the client says otherwise.
func (c *client) wantsOutput() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Index(levels, c.level) <= slices.Index(levels, "info")
}

// wholeToModel are clients that show a model every block of a result, whomever it
// is for: what is said twice, to the model and to the person, would reach the
// model twice.
var wholeToModel = []string{"opencode"}

func (c *client) splitsAudience() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agent || !slices.Contains(wholeToModel, c.name)
}

// limits are what a client takes of a result's text before it cuts it where it likes.
type limits struct{ bytes, lines int } // 0 is no limit

func (c *client) limits() limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "opencode" && !c.agent {
		return limits{48_000, 1900} // of 51,200 and 2,000, of which it keeps the head only
	}
	return limits{}
}

// hintFiles are the names of the files with hints that a client does not read by
// itself: goose reads all, opencode its own, others none.
func (c *client) hintFiles(all []string) []string {
	switch {
	case c.isGoose():
		return nil
	case c.nameIs("opencode"):
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "AGENTS.md" || name == "CLAUDE.md" })
	}
	return all
}

func (c *client) nameIs(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name == name
}
