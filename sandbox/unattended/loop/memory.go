package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gander.dev/gander/sandbox/telemetry"
)

// memoryVersions is how many versions of the memory are kept.
const memoryVersions = 5

// remember keeps the version of the memory that an iteration leaves. One that the agent
// should have written and did not is made of what it did.
func (l *Loop) remember(it *iteration, before string, v telemetry.Verdict) {
	workspace := l.o.Start.Workspace
	after, err := readTail(workspace, memoryFile)
	it.mu.Lock()
	wrote := err == nil && strings.TrimSpace(after) != "" && after != before
	worked := it.counts.Actions > 0 || v.Outcome == telemetry.OK
	if !wrote && worked {
		after = it.memoir(before, v)
		if err := writeFile(workspace, memoryFile, []byte(after)); err != nil {
			l.log.Warn("the memory that the agent did not write cannot be written for it; the next iteration gets it all the same", "err", err)
		}
	}
	it.mu.Unlock()
	if !wrote && !worked {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saved.Memory = append(l.saved.Memory, after)
	if over := len(l.saved.Memory) - memoryVersions; over > 0 {
		l.saved.Memory = l.saved.Memory[over:]
	}
}

// memoir is a memory of an iteration by what was seen of it, after what was remembered
// before.
func (it *iteration) memoir(before string, v telemetry.Verdict) string {
	var b strings.Builder
	if before = strings.TrimSpace(before); before != "" {
		b.WriteString(tail(before, sectionLimit/2) + "\n\n")
	}
	fmt.Fprintf(&b, "## Iteration %d, which wrote no memory\n\nThis is what was seen of it: %d actions, %d errors; it ended as %s", it.number, it.counts.Actions, it.counts.Errors, v.Outcome)
	if v.Reason != "" {
		b.WriteString(" (" + v.Reason + ")")
	}
	b.WriteString(".\n")
	if len(it.did) > 0 {
		b.WriteString("\nLast actions:\n")
	}
	for _, did := range it.did {
		b.WriteString("- " + did + "\n")
	}
	if said := strings.TrimSpace(it.said); said != "" {
		b.WriteString("\nLast words:\n" + said + "\n")
	}
	return b.String()
}

// removeFile removes an entry of the workspace that is not a directory, if it is there.
func removeFile(workspace, name string) error {
	err := os.Remove(filepath.Join(workspace, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
