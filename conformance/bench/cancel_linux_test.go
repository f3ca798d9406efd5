package bench

import (
	"encoding/json"
	"fmt"
	"time"

	"gander.dev/gander/conformance/model"
)

// sameCancel tells how long session/cancel takes while a shell runs a process
// tree, and what is left of the tree then.
func (b *bench) sameCancel() {
	ours, theirs := b.warm(b.ganderACP(b.goose)), b.warm(b.gooseACP())
	defer ours.stop()
	defer theirs.stop()
	var with, without, left, theirLeft samples
	side := func(c *client, took, left *samples) func() {
		return func() {
			ms, n := b.cancel(c)
			took.add(ms)
			left.add(float64(n))
		}
	}
	alternate(b.runs(7), side(ours, &with, &left), side(theirs, &without, &theirLeft))
	what := fmt.Sprintf("`session/cancel` → response, shell with %d processes (left behind: gander %.0f, goose %.0f)",
		treeSize, left.median(), theirLeft.median())
	b.table.tell(pair{what, with, without, inMS})
}

// cancel runs a turn whose shell starts a tree, cancels it, and returns the
// milliseconds to the response and the number of sleeping processes left.
func (b *bench) cancel(c *client) (ms float64, left int) {
	b.t.Helper()
	tree := newTree()
	args, err := json.Marshal(map[string]any{"command": tree.script})
	if err != nil {
		b.t.Fatal(err)
	}
	var begun time.Time
	asked := make(chan error, 1)
	go func() { // ends with the send, which is waited for below
		err := tree.complete()
		begun = time.Now()
		if err == nil {
			_, err = fmt.Fprintf(c.stdin, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`+"\n", c.session)
		}
		asked <- err
	}()
	reason := c.prompt(model.Embed(fmt.Sprintf(`[{"tool":"shell","args":%s},{"text":"not reached"}]`, args)), nil)
	answered := time.Now()
	if err := <-asked; err != nil || reason != "cancelled" {
		c.fail("the cancelled turn ended with %q (%v)", reason, err)
	}
	return milliseconds(answered.Sub(begun)), b.clear(tree)
}
