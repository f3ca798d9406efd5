package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A session holds everything that was acknowledged, and goes on knowing it, when the
// machine loses its power in the middle of a turn. gander's home is a file system in a
// file; when everything of gander stands still, that file has what a disk would have.
// GANDER_CRASH_LOSSES says how many losses there are. That they take what was not
// flushed is seen with a gander that does not flush.
func TestPowerLoss(t *testing.T) {
	needRoot(t)
	need(t, exists("/dev/loop-control"), "loop devices of the kernel")
	runs := float64(count(t, "GANDER_CRASH_LOSSES", 1))
	inCells(t, func(t *testing.T, w *world) { testPowerLosses(t, w, w.part(runs)) })
	t.Run("without flushes", func(t *testing.T) {
		w := newWorld(t, home, 0)
		d := w.disk()
		w.write(w.ganderHome(), "config.json", `{"sessions": {"sync": "never"}}`)
		command(t, "sync", "-f", w.ganderHome())
		cwd := w.mkdir("project")
		e := w.gander(nil)
		e.initialize()
		s := e.session(cwd)
		s.round(w, 0)
		d.losePower(e)
		e = w.gander(nil)
		e.initialize()
		if err := e.request("session/load", map[string]any{"sessionId": s.id, "cwd": cwd, "mcpServers": []any{}}, nil); err == nil {
			if got := strings.Join(e.replayed(s.id), "\n"); strings.Contains(got, "answer-0.") {
				t.Errorf("nothing was flushed and nothing lost: this disk does not drop what was not flushed; replayed is %q", got)
			}
		}
	})
}

func testPowerLosses(t *testing.T, w *world, runs int) {
	d, cwd := w.disk(), w.mkdir("project")
	e := w.gander(nil)
	e.initialize()
	s, all := e.session(cwd), &thread{}
	for i := range runs {
		all.finish(s.round(w, 2*i))
		command(t, "sync", "-f", w.ganderHome()) // as the kernel does by itself: the agent has a part of the thread
		all.finish(s.round(w, 2*i+1))
		title := fmt.Sprintf("Title %d", i)
		if err := e.request("session/set_title", map[string]any{"sessionId": s.id, "title": title}, nil); err != nil {
			t.Fatal(err)
		}
		var fresh newSession
		if err := e.request("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}, &fresh); err != nil {
			t.Fatal(err)
		}
		if err := e.request("session/set_config_option", map[string]any{"sessionId": fresh.SessionID, "configId": "permissions", "value": "reads"}, nil); err != nil {
			t.Fatal(err)
		}
		busy := s.work(w, i)
		time.Sleep(rand.N(time.Second)) // the moment is the point of this test, and nothing waits for it
		d.losePower(e)
		all.cut(busy)

		when := fmt.Sprintf("after power was lost in round %d", i)
		e = w.gander(nil)
		e.initialize()
		var replayed []string
		s, replayed = e.load(s.id, cwd)
		all.check(t, when, replayed)
		for _, l := range e.list(nil) {
			if l.SessionID == s.id && l.Title != title {
				t.Errorf("%s the title is %q, want %q", when, l.Title, title)
			}
		}
		again, _ := e.load(fresh.SessionID, cwd)
		for _, o := range again.opened.ConfigOptions {
			if o.ID == "permissions" && o.CurrentValue != "reads" {
				t.Errorf("%s the option %s is %q, want reads", when, o.ID, o.CurrentValue)
			}
		}
		before := len(w.model.Requests())
		on := s.prompt(fmt.Sprintf("and on, %d. ", i) + script(t, says("still here.")))
		on.done("end_turn")
		all.finish(on)
		for k := range 2*i + 2 {
			w.told(before, fmt.Sprintf("question-%d.", k), fmt.Sprintf("output-%d.", k), fmt.Sprintf("answer-%d.", k))
		}
	}
}

// A disk is a file system of its own for gander's home.
type disk struct {
	*world
	image   string
	mounted bool
}

func (w *world) disk() *disk {
	w.t.Helper()
	d := &disk{world: w, image: filepath.Join(w.dir, "disk")}
	command(w.t, "truncate", "-s", "512M", d.image)
	command(w.t, "mkfs.ext4", "-q", d.image)
	w.mkdir("gander")
	d.mount()
	w.t.Cleanup(d.unmount)
	return d
}

// mount mounts the disk; nothing is written to it unless somebody asks.
func (d *disk) mount() {
	d.t.Helper()
	command(d.t, "mount", "-o", "loop,commit=300", d.image, d.ganderHome())
	d.mounted = true
}

func (d *disk) unmount() {
	d.t.Helper()
	if d.mounted {
		eventually(d.t, "the disk to be unmounted", func() bool { return exec.Command("umount", d.ganderHome()).Run() == nil })
	}
	d.mounted = false
}

// losePower ends everything of a gander, and leaves on the disk what was written to
// it when it was last heard.
func (d *disk) losePower(e *editor) {
	d.t.Helper()
	e.dies = true
	self, ok := readProc(e.pid())
	if !ok {
		d.t.Fatal("gander has ended")
	}
	var all []proc
	signal := func(s syscall.Signal) {
		for _, p := range all {
			_ = syscall.Kill(p.pid, s) // it may have ended
		}
	}
	eventually(d.t, "everything to stand still", func() bool {
		all = append([]proc{self}, d.below(e)...)
		signal(syscall.SIGSTOP)
		for begun := time.Now(); time.Since(begun) < time.Second; pause() {
			if stopped(all) {
				return true
			}
		}
		signal(syscall.SIGCONT) // a process that waits for its supervisor stops only after the answer
		return false
	})
	after := d.image + ".after"
	command(d.t, "cp", "--sparse=always", d.image, after)
	signal(syscall.SIGKILL)
	e.exit()
	gone(d.t, patience, stillAlive(all))
	d.unmount()
	if err := os.Rename(after, d.image); err != nil {
		d.t.Fatal(err)
	}
	d.mount()
}

// stopped reports whether every thread of these processes is stopped.
func stopped(all []proc) bool {
	for _, p := range all {
		threads, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.pid), "task")) // it may have ended
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name())
			if q, ok := readProc(tid); ok && q.state != "T" && q.state != "t" {
				return false
			}
		}
	}
	return true
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}
