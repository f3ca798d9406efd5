package docker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	api "github.com/moby/moby/api/types/container"

	"gander.dev/gander/sandbox/drivers/registry"
)

// The labels of a Spec that name the container.
const (
	agentLabel   = "agent"
	programLabel = "program" // the agent whose image it is, where that is another one
	sessionLabel = "session"
)

// The labels of a container. Together they are its registry.Record, so that it
// can be understood without any file.
const (
	labelID      = "gander.id"
	labelOwner   = "gander.owner"   // process id and start of its gander, "123:456"
	labelMachine = "gander.machine" // where that process id means something
	labelHome    = "gander.home"    // the state directory of its gander
	labelDir     = "gander.dir"     // the project
	labelCreated = "gander.created"
	labelSpec    = "gander.label." // + the name of a label of the Spec
)

func (p plan) containerLabels(stateDir string) map[string]string {
	self := registry.Self()
	labels := map[string]string{
		labelID:      p.spec.ID,
		labelOwner:   fmt.Sprintf("%d:%d", self.Host.PID, self.Host.Start),
		labelMachine: self.Machine,
		labelHome:    stateDir,
		labelDir:     p.project.Path,
		labelCreated: p.created.Format(time.RFC3339Nano),
	}
	for name, value := range p.spec.Labels {
		labels[labelSpec+name] = value
	}
	return labels
}

// recordOf reads a container's labels.
func recordOf(c api.Summary) registry.Record {
	r := registry.Record{
		ID: c.Labels[labelID], Driver: Name, WorkingDir: c.Labels[labelDir], Container: c.ID,
		Owner: registry.Owner{Host: parseOwner(c.Labels[labelOwner]), Machine: c.Labels[labelMachine]}, Labels: map[string]string{},
	}
	if t, err := time.Parse(time.RFC3339Nano, c.Labels[labelCreated]); err == nil {
		r.Created = t
	}
	for name, value := range c.Labels {
		if name, ok := strings.CutPrefix(name, labelSpec); ok {
			r.Labels[name] = value
		}
	}
	return r
}

func parseOwner(s string) registry.ProcessRef {
	pid, start, _ := strings.Cut(s, ":")
	n, err1 := strconv.Atoi(pid)
	at, err2 := strconv.ParseUint(start, 10, 64)
	if err1 != nil || err2 != nil {
		return registry.ProcessRef{}
	}
	return registry.ProcessRef{PID: n, Start: at}
}
