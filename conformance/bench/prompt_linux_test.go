package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/conformance/model"
)

const copierName = "bench-copier"

// samePrompt measures a whole turn of a warm session.
func (b *bench) samePrompt() {
	ours, theirs := b.warm(b.ganderACP(b.goose)), b.warm(b.gooseACP())
	defer ours.stop()
	defer theirs.stop()
	var with, without samples
	side := func(c *client, s *samples) func() {
		return func() {
			begun := time.Now()
			c.finish("Hello.", nil)
			s.took(begun)
		}
	}
	alternate(b.runs(60), side(ours, &with), side(theirs, &without))
	b.table.within(10, pair{"prompt round trip, model that answers at once, beside `goose acp`", with, without, inMS})
	b.supervisors(ours)
}

// supervisors tells what gander keeps in memory beside an open session's agent.
func (b *bench) supervisors(c *client) {
	var host, inside samples
	host.add(b.resident(c.cmd.Process.Pid))
	sum := 0.0
	for _, pid := range below(c.cmd.Process.Pid) {
		if program, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil && filepath.Base(program) != filepath.Base(b.goose) {
			sum += b.resident(pid)
		}
	}
	inside.add(sum)
	b.table.say("resident memory with a session open, without supervisor and agent", host, inMB)
	b.table.say("resident memory of the session's supervisor (all its processes)", inside, inMB)
}

// chunks is how many words the model says in one turn, pause how long it waits
// before each: slower than anything on the way, so that none waits for another.
const (
	chunks = 50
	pause  = 2 // ms
)

// sameChunks measures how long after the model said a word the client has it:
// from goose alone, from goose through three processes that copy lines, and
// through gander. Each round counts with the median of its words.
func (b *bench) sameChunks() {
	var copiers []*exec.Cmd
	for range 3 {
		copiers = append(copiers, b.command(nil, b.program(copierName)))
	}
	direct, piped, through := b.warm(b.gooseACP()), b.warm(b.gooseACP(), copiers...), b.warm(b.ganderACP(b.goose))
	var alone, pipes, gander samples
	side := func(c *client, s *samples) func() {
		return func() { s.add(b.latencies(c).median()) }
	}
	alternate(b.runs(100), side(direct, &alone), side(piped, &pipes), side(through, &gander))
	for _, c := range []*client{direct, piped, through} {
		c.stop()
	}
	b.table.atMost(3, pair{"added latency per streamed chunk, beside three pipes", gander.minus(alone), pipes.minus(alone), inUS})
	b.table.tell(pair{"model says a word → client has it, beside `goose acp`", gander, alone, inUS})
}

// latencies streams a turn and returns, for each word, the milliseconds from the
// model to the client.
func (b *bench) latencies(c *client) samples {
	b.t.Helper()
	return b.latenciesOf(c, func(script string) string { return script })
}

// latenciesOf is latencies of a turn whose prompt wrap makes of the model's script.
func (b *bench) latenciesOf(c *client, wrap func(script string) string) samples {
	b.t.Helper()
	arrived := map[string]time.Time{}
	b.clock.reset()
	script := `[{"tokens": ` + strconv.Itoa(chunks) + `, "delay": ` + strconv.Itoa(pause) + `}]`
	c.finish(wrap(model.Embed(script)), func(line []byte) {
		now := time.Now()
		for word := range strings.FieldsSeq(chunkText(line)) {
			if strings.HasPrefix(word, "t") { // the orchestrator ends by another word of its own
				arrived[word] = now
			}
		}
	})
	var s samples
	for word, at := range arrived {
		said, err := b.clock.when(word)
		if err != nil {
			c.fail("%v", err)
		}
		s.add(milliseconds(at.Sub(said)))
	}
	if len(s) != chunks {
		c.fail("%d of %d words have arrived", len(s), chunks)
	}
	return s
}

// copyLines is a bare pipe with a process in it.
func copyLines(r io.Reader, w io.Writer) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
}
