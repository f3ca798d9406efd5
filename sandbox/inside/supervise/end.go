package supervise

import (
	"context"
	"fmt"
	"time"

	"gander.dev/gander/sandbox"
)

// Process is what Host.Start returns: a sandbox.Process that can also end in
// order and say what is left of it.
type Process interface {
	sandbox.Process
	// End asks the command and everything it started, however that escaped, to
	// end (TERM), and kills what has not done so after the grace. What ignores
	// TERM is killed as soon as nothing else is left. It returns when nothing is.
	// Where there are no signals (Windows) it is Kill.
	End(ctx context.Context, grace time.Duration) error
	// Members lists what runs, also when the command itself has ended.
	Members(ctx context.Context) ([]Member, error)
	// Gone is closed when nothing is left, or when the supervisor has ended.
	Gone() <-chan struct{}
}

var _ Process = (*process)(nil)

// A Member is a process that a command started.
type Member struct {
	PID int `json:"pid"`
	// Name is the command line on Linux, elsewhere the program; it may be cut, and
	// is empty when the system does not say.
	Name string `json:"name,omitempty"`
}

// maxMembers bounds the list of a command's processes.
const maxMembers = 64

// maxMemberName bounds the name of one, in bytes.
const maxMemberName = 200

type endParams struct {
	Process uint64        `json:"process"`
	Grace   time.Duration `json:"grace"`
}

type membersResult struct {
	Members []Member `json:"members,omitempty"`
}

func (p *process) End(ctx context.Context, grace time.Duration) error {
	if err := p.host.ctl.call(ctx, "end", endParams{p.id, grace}, nil); err != nil {
		return fmt.Errorf("ending process %d and what it started: %w", p.pid, err)
	}
	return nil
}

func (p *process) Members(ctx context.Context) ([]Member, error) {
	var r membersResult
	if err := p.host.ctl.call(ctx, "members", processParams{Process: p.id}, &r); err != nil {
		return nil, fmt.Errorf("listing what process %d started: %w", p.pid, err)
	}
	return r.Members, nil
}

func (p *process) Gone() <-chan struct{} { return p.gone }

// endProcess is "end" in the supervisor.
func (c *client) endProcess(p endParams) (struct{}, error) {
	if cmd, err := c.find(p.Process); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), min(p.Grace, killDeadline))
		cmd.tree.polite(ctx)
		cancel()
	}
	return c.kill(processParams{Process: p.Process})
}

// members is "members" in the supervisor; of what has ended nothing is left.
func (c *client) members(p processParams) (r membersResult, err error) {
	cmd, err := c.find(p.Process)
	if err != nil {
		return r, nil //nolint:nilerr // it has ended
	}
	for _, m := range cmd.tree.members() {
		if len(r.Members) == maxMembers {
			break
		}
		name := processName(m.pid)
		r.Members = append(r.Members, Member{PID: m.pid, Name: name[:min(len(name), maxMemberName)]})
	}
	return r, nil
}
