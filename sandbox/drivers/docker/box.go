package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/caches"
	"gander.dev/gander/sandbox/drivers/registry"
	"gander.dev/gander/sandbox/inside/supervise"
)

// box is a running sandbox. It implements sandbox.Sandbox.
type box struct {
	*supervise.Host
	container *container
	caches    *caches.Caches
	log       *slog.Logger
	info      sandbox.Info
	entry     registry.Entry
	memory    int64 // the container's bound; 0 for none
	done      chan struct{}
	err       error // why the container may still be there; set before done is closed
}

// Info implements sandbox.Sandbox.
func (b *box) Info() sandbox.Info { return b.info }

// Done is closed when the container is gone.
func (b *box) Done() <-chan struct{} { return b.done }

// watch ends with the container, for whatever reason, and clears up.
func (b *box) watch() {
	defer close(b.done)
	select {
	case <-b.container.gone:
		if b.container.err != nil {
			b.log.Warn("the daemon does not say how a container ended", "container", b.container.name, "error", b.container.err)
		}
	case <-b.Host.Done():
		b.container.await(endTimeout)
	}
	b.err = b.container.remove(context.Background())
	_ = b.Host.Close()
	b.container.forget()
	_ = b.container.cli.Close()
	b.caches.Close()
	b.entry.Remove()
}

// Consumption implements sandbox.Counted: the daemon reads the container's cgroup.
func (b *box) Consumption(ctx context.Context) (sandbox.Consumption, error) {
	answer, err := b.container.cli.ContainerStats(ctx, b.container.id, client.ContainerStatsOptions{})
	if err != nil {
		return sandbox.Consumption{}, fmt.Errorf("asking the daemon what the container uses: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	var stats api.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		return sandbox.Consumption{}, fmt.Errorf("reading what the container uses: %w", err)
	}
	memory := stats.MemoryStats
	if memory.Usage == 0 {
		return sandbox.Consumption{}, errors.New("the daemon counts nothing for the container")
	}
	cached, ok := memory.Stats["total_inactive_file"] // of cgroup v1
	if !ok {
		cached = memory.Stats["inactive_file"]
	}
	return sandbox.Consumption{
		CPU: time.Duration(stats.CPUStats.CPUUsage.TotalUsage), Memory: int64(memory.Usage - min(memory.Usage, cached)),
	}, nil
}

// Exceeded implements sandbox.Limited: the daemon is told by the kernel of each process that
// is killed for the container's memory. It remembers the last 256 events of all containers.
func (b *box) Exceeded(ctx context.Context) []string {
	if b.memory == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	told := b.container.cli.Events(ctx, client.EventsListOptions{
		Since: "1", Until: strconv.FormatInt(time.Now().Unix()+1, 10), Filters: client.Filters{}.Add("container", b.container.id).Add("event", string(events.ActionOOM)),
	})
	for n := int64(0); ; n++ {
		select {
		case <-told.Messages:
		case err := <-told.Err:
			if err != nil && !errors.Is(err, io.EOF) {
				b.log.Debug("the daemon does not say whether memory was short in the container", "error", err)
			}
			if n == 0 {
				return nil
			}
			return []string{sandbox.TooMuchMemory(n, fmt.Sprintf("%d MiB", b.memory>>20))}
		}
	}
}

// eventsTime bounds a question for what the daemon remembers.
const eventsTime = 2 * time.Second

// Close ends the supervisor's stream, on which it ends, and waits for the
// container's end; one that does not end is killed. An error means that it may
// still run.
func (b *box) Close() error {
	_ = b.Host.Close()
	<-b.done
	return b.err
}

// container is a container that was created.
type container struct {
	cli      *client.Client
	id, name string
	// supervisor is its first process, where that is to be seen from here.
	supervisor registry.ProcessRef
	// gone is closed when the daemon has said that the container is removed, or,
	// with an error in err, that it does not know. It is nil before start.
	gone chan struct{}
	err  error
	// cancel ends the waiting for that.
	cancel   context.CancelFunc
	attached *stream
	wg       sync.WaitGroup // what waits for the container or reads from it
}

// start attaches to the container and starts it. Waiting for its end begins
// before, so that an end at once is not missed.
func (c *container) start(ctx context.Context, log *slog.Logger) (*stream, error) {
	attached, err := c.cli.ContainerAttach(ctx, c.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attaching to the container: %w", err)
	}
	c.attached = &stream{conn: attached.Conn, in: attached.Reader, log: log}
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := c.cli.ContainerWait(lifetime, c.id, client.ContainerWaitOptions{Condition: api.WaitConditionRemoved})
	c.gone, c.cancel = make(chan struct{}), cancel
	c.wg.Go(func() { // ends with the container, or with forget
		defer close(c.gone)
		select {
		case <-ended.Result:
		case c.err = <-ended.Error:
		}
	})
	if _, err := c.cli.ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
		return nil, fmt.Errorf("starting the container: %w", err)
	}
	return c.attached, nil
}

// drain reads what the supervisor logs when nobody else reads the stream.
func (c *container) drain(s *stream) {
	c.wg.Go(func() { _, _ = io.Copy(io.Discard, s) }) // ends with the stream
}

// await waits for the daemon to say that the container is gone.
func (c *container) await(patience time.Duration) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-c.gone:
	case <-t.C:
	}
}

// removePause is between two questions whether a container is gone, while the
// daemon is at it or does not answer.
const removePause = 20 * time.Millisecond

// remove kills the container if it runs and returns when the daemon does not
// know it any more. It is safe to repeat.
func (c *container) remove(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for begun := time.Now(); ; time.Sleep(removePause) {
		err := c.tryRemove(ctx)
		patience := endTimeout
		if errdefs.IsConflict(err) { // the daemon is at it
			patience = removeTimeout
		}
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case time.Since(begun) > patience:
			return fmt.Errorf("the container %s may still run: %w; remove it with: docker rm -f %s", c.name, err, c.name)
		}
	}
}

func (c *container) tryRemove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	_, err := c.cli.ContainerRemove(ctx, c.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// forget ends what waits for the container and reads from it.
func (c *container) forget() {
	if c.cancel != nil {
		c.cancel()
		_ = c.attached.Close()
		c.wg.Wait()
	}
}
