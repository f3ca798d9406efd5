package router

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gander.dev/gander/acp"
	"gander.dev/gander/sandbox/outbound/doorway"
)

// What is kept of tool calls that never end is bounded, and each of them is ended.
func TestManyOpenToolCalls(t *testing.T) {
	const calls = maxOpenTools + 50
	kept, bytes := 0, 0
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			long := strings.Repeat("x", 1<<20)
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"` + long + `","kind":"` + long + `"}`)
			c.update(`{"sessionUpdate":"tool_call","toolCallId":"` + long[:maxInput+1] + `","title":"t","kind":"other"}`)
			for i := range calls {
				c.update(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"t","kind":"other"}`, i))
				if i > 0 {
					continue
				}
				for _, tc := range c.params.Client.(*relay).tools {
					bytes += len(tc.id) + len(tc.kind) + len(tc.tool)
				}
			}
			kept = len(c.params.Client.(*relay).tools)
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	s := r.open(t)
	r.wantStop(t, s.SessionID, "go", acp.StopEndTurn)
	if kept > maxOpenTools || bytes > 3*maxInput {
		t.Errorf("%d calls are kept, of the large ones %d bytes", kept, bytes)
	}
	ended := map[string]int{}
	for _, u := range r.editor.Updates(s.SessionID) {
		tu := readToolUpdate(u)
		if len(tu.ToolCallID) > maxInput {
			t.Errorf("a call with an id of %d bytes was passed on, and recorded", len(tu.ToolCallID))
		}
		if tu.final() {
			ended[tu.ToolCallID]++
		}
	}
	for i := range calls {
		if id := fmt.Sprintf("c%d", i); ended[id] != 1 {
			t.Errorf("%s ended %d times", id, ended[id])
		}
	}
}

// What was there before is added to an update as far as it is not much.
func TestWholeTextsAreBounded(t *testing.T) {
	p := newProject(t)
	p.write(t, "big", strings.Repeat("0123456\n", 64<<10))
	grown, kept := 0, 0
	p.do = func(c *fakeConv) {
		r := c.params.Client.(*relay)
		r.mu.Lock()
		defer r.mu.Unlock()
		var diffs []string
		for i := range maxShownDiffs + 100 {
			path := p.dir + "/" + strings.Repeat("./", i) + "big"
			diffs = append(diffs, fmt.Sprintf(`{"type":"diff","path":%q,"newText":""}`, path))
		}
		list, _ := r.was.complete(json.RawMessage("[" + strings.Join(diffs, ",") + "]"))
		grown = len(marshal(list))
		for i := range 5 {
			r.was.written = map[string]*string{}
			r.was.complete(json.RawMessage(fmt.Sprintf(`[{"type":"diff","path":"%s/n%d","newText":%q}]`, p.dir, i, strings.Repeat("x", maxShownText+1))))
			for _, text := range r.was.written {
				if text != nil {
					kept += len(*text)
				}
			}
		}
	}
	p.turnUpdates(t, "go")
	if grown > 8<<20 || grown < 1<<19 || kept > 0 {
		t.Errorf("the update grew to %d bytes, %d are kept of long texts", grown, kept)
	}
}

// What a turn has written as a whole is kept in bounds together, and what is not kept is
// not shown wrongly either.
func TestWrittenTextsAreBounded(t *testing.T) {
	p := newProject(t) // a.txt is "one\ntwo\n" in it
	p.do = func(c *fakeConv) {
		r := c.params.Client.(*relay)
		r.mu.Lock()
		defer r.mu.Unlock()
		writes := func(name, text string) (old string) {
			list, _ := r.was.complete(marshal([]any{map[string]string{"type": "diff", "path": p.dir + "/" + name, "newText": text}}))
			return string(acp.Member(list[0], "oldText"))
		}
		text := strings.Repeat("x", maxShownText-10)
		for i := range 2 * maxWritten / len(text) {
			writes(fmt.Sprint("n", i), text)
		}
		held := 0
		for _, text := range r.was.written {
			if text != nil {
				held += len(*text)
			}
		}
		if held > maxWritten || held < maxWritten/2 {
			t.Errorf("%d bytes are held", held)
		}
		last := fmt.Sprint("n", 2*maxWritten/len(text)-1)
		if old := writes(last, "y"); old != "" {
			t.Errorf("of %s, which is not held, %.100s is shown", last, old)
		}
		if old := writes("n0", "first"); old != string(marshal(text)) {
			t.Errorf("of n0, which is held, %.100s is shown", old)
		}
		writes("n1", "short") // makes room
		if old := writes("n1", text); old != `"short"` {
			t.Errorf("of n1 %.100s is shown", old)
		}
		for i := range maxShownDiffs {
			writes(fmt.Sprint("m", i), "z")
		}
		writes("n0", "second")
		if old := writes("n0", "third"); old != `"second"` {
			t.Errorf("of n0, which is known, %.100s is shown when there are many", old)
		}
		writes("a.txt", "later")
		if old := writes("a.txt", "last"); old != "" {
			t.Errorf("of a.txt, which is one of too many, %.100s is shown", old)
		}
		if n := len(r.was.written); n > maxShownDiffs {
			t.Errorf("%d files are known", n)
		}
	}
	p.turnUpdates(t, "go")
}

// Few files at a time pass through gander, however many an agent asks for.
func TestFilesAtATime(t *testing.T) {
	const asked = 40
	var mu sync.Mutex
	now, most := 0, 0
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "a.txt"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRigFor(t, acp.ClientCapabilities{FS: acp.FileSystemCapability{ReadTextFile: true}}, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			var work sync.WaitGroup
			for range asked {
				work.Go(func() {
					h := c.params.Client.(acp.RequestHandler)
					if _, err := h.HandleRequest(ctx, methodReadTextFile, marshal(map[string]string{"path": filepath.Join(project, "a.txt")})); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	r.editor.Request = func(context.Context, string, json.RawMessage) (any, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		return map[string]string{"content": "a"}, nil
	}
	r.wantStop(t, r.editor.NewSession(t, project).SessionID, "go", acp.StopEndTurn)
	if most > maxFiles {
		t.Errorf("%d files passed at a time", most)
	}
}

// Programs inside do not have gander read from ever more connections, of which each may
// hold a long line.
func TestConnectionsForFiles(t *testing.T) {
	b := &backend{s: new(session)}
	b.relay = newRelay(b)
	var open []net.Conn
	for range maxFiles {
		c, err := b.dialFiles(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if c, err := b.dialFiles(t.Context()); err == nil {
		_ = c.Close()
		t.Errorf("connection %d was made", maxFiles+1)
	}
	for _, c := range open {
		_ = c.Close()
	}
	b.output.wg.Wait()
	c, err := b.dialFiles(t.Context())
	if err != nil {
		t.Fatalf("after the others have ended: %v", err)
	}
	_ = c.Close()
	b.output.wg.Wait()
}

// Of long lines few are held at a time, and each is answered, also one that is too long.
func TestLongLinesForFiles(t *testing.T) {
	const size = 12 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b := &backend{s: new(session), ctx: ctx}
		b.relay = newRelay(b)
		var held atomic.Int64
		send := func(conn net.Conn, size int) {
			part := bytes.Repeat([]byte("x"), 64<<10)
			for range size / len(part) {
				n, _ := conn.Write(part)
				held.Add(int64(n))
			}
		}
		rest := make(chan struct{})
		var answers atomic.Int32
		answer := func(conn net.Conn, has string) {
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.Contains(line, has) {
				t.Errorf("answered %.200s, %v", line, err)
			}
			answers.Add(1)
		}
		var open []net.Conn
		for range maxFiles {
			conn, err := b.dialFiles(ctx)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
			go func() {
				_, _ = io.WriteString(conn, `{"path":"/x","write":true,"text":"`)
				send(conn, size)
				<-rest
				go func() { _, _ = io.WriteString(conn, "\"}\n") }()
				answer(conn, `"noBuffer":true`)
			}()
		}
		synctest.Wait()
		if most := int64(largeTexts*size + maxFiles*(doorway.Free+128<<10)); held.Load() > most {
			t.Errorf("%d bytes of lines are held, want %d at most", held.Load(), most)
		}
		close(rest)
		synctest.Wait()
		if n := answers.Load(); n != maxFiles {
			t.Errorf("%d of %d were answered", n, maxFiles)
		}
		go func() {
			send(open[0], 2*maxFileLine)
			_, _ = io.WriteString(open[0], "\n")
		}()
		answer(open[0], "more than the 16842752 bytes that pass")
		go func() { _, _ = io.WriteString(open[0], "{}\n") }()
		answer(open[0], `"noBuffer":true`)
		for _, conn := range open {
			_ = conn.Close()
		}
		stop()
		b.output.wg.Wait()
	})
}

// A long answer waits for a place, a short one does not; and markup is not written as six
// bytes for one.
func TestLongAnswersForFiles(t *testing.T) {
	project := t.TempDir()
	writeFile(t, project, "long", "saved")
	writeFile(t, project, "short", "saved")
	texts := map[string]string{"long": strings.Repeat("<", 2<<20), "short": "<"}
	r := newRigFor(t, acp.ClientCapabilities{FS: acp.FileSystemCapability{ReadTextFile: true}}, func(r *rig) {
		r.agent.onTurn = func(ctx context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			b := c.params.Client.(*relay).b
			var places []func()
			for range largeTexts {
				done, err := b.relay.texts.Take(ctx)
				if err != nil {
					return nil, err
				}
				places = append(places, done)
			}
			open := map[string]net.Conn{}
			for name := range texts {
				conn, err := b.dialFiles(ctx)
				if err != nil {
					return nil, err
				}
				defer conn.Close()
				if _, err := fmt.Fprintf(conn, "{\"path\":%q}\n", filepath.Join(project, name)); err != nil {
					t.Error(err)
				}
				open[name] = conn
			}
			answer := func(name string) {
				if got, err := bufio.NewReader(open[name]).ReadString('\n'); err != nil || len(got) > len(texts[name])+20 {
					t.Errorf("an answer of %d bytes for a text of %d, %v", len(got), len(texts[name]), err)
				}
			}
			answer("short")
			_ = open["long"].SetReadDeadline(time.Now().Add(time.Second))
			if n, _ := open["long"].Read(make([]byte, 1)); n > 0 {
				t.Error("a long answer did not wait for a place")
			}
			_ = open["long"].SetReadDeadline(time.Time{})
			places[0]()
			answer("long")
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	r.editor.Request = func(_ context.Context, _ string, params json.RawMessage) (any, error) {
		return map[string]string{"content": texts[filepath.Base(stringOf(acp.Member(params, "path")))]}, nil
	}
	r.wantStop(t, r.editor.NewSession(t, project).SessionID, "go", acp.StopEndTurn)
}

// What was told is not remembered without end: it is in an agent's words.
func TestNoticesThatAreRemembered(t *testing.T) {
	s := &session{told: map[string]bool{}}
	for i := range 3 * maxTold {
		if text := fmt.Sprint("notice ", i); !s.firstTime(text) || s.firstTime(text) {
			t.Fatalf("%s: not told once", text)
		}
	}
	if len(s.told) > maxTold {
		t.Errorf("%d are remembered", len(s.told))
	}
}

// What an agent says of itself is kept in bounds: its words in notices that wait, its mode
// and its commands, of which the person learns that some are left out.
func TestWordsOfTheAgentThatAreKept(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var s *session
	r := newRig(t, func(r *rig) {
		r.agent.onTurn = func(_ context.Context, c *fakeConv, _ string) (*acp.PromptResponse, error) {
			s = c.params.Client.(*relay).s
			c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"` + long + `"}`)
			c.update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"first","description":"d"},{"name":"` + long + `"},{"name":"last"}]}`)
			for deadline := time.Now().Add(10 * time.Second); !strings.Contains(r.said(s.id), "2 commands of the agent are not offered"); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("nothing is said of the commands that are left out")
					break
				}
			}
			return &acp.PromptResponse{StopReason: acp.StopEndTurn}, nil
		}
	})
	id := r.open(t).SessionID
	r.wantStop(t, id, "go", acp.StopEndTurn)
	for i := range 2 * maxPending {
		s.notice("warning", fmt.Sprint(i, long))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := len(s.want[acp.CategoryMode])
	for _, n := range s.pending {
		held += len(n.text)
		if !strings.Contains(n.text, "bytes are left out here]") {
			t.Errorf("a notice that was cut does not say so: %.100s", n.text)
		}
	}
	for text := range s.told {
		held += len(text)
	}
	for _, c := range s.agentCommands {
		held += len(c)
	}
	if most := 4 * maxPending * (maxNotice + 100); held > most || len(s.pending) != maxPending || len(s.agentCommands) != 1 {
		t.Errorf("%d bytes are kept, want %d at most; %d notices, %d commands", held, most, len(s.pending), len(s.agentCommands))
	}
}

// Programs inside do not have gander read from ever more connections of the output door.
func TestConnectionsForOutput(t *testing.T) {
	var o output
	var open []net.Conn
	for range maxOutputs + 5 {
		if c, err := o.dial(t.Context()); err == nil {
			open = append(open, c)
		}
	}
	if len(open) != maxOutputs {
		t.Errorf("%d connections were made", len(open))
	}
	for _, c := range open {
		_ = c.Close()
	}
	o.wg.Wait()
	c, err := o.dial(t.Context())
	if err != nil {
		t.Fatalf("after the others have ended: %v", err)
	}
	_ = c.Close()
	o.wg.Wait()
}

// A path is not longer than a path can be, where a denial would say it.
func TestLongPathsAreRefused(t *testing.T) {
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, ".gooseignore"), []byte("*.pem\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, _ := fileRig(t, func(ask func(string, map[string]any) (string, error)) {
		_, err := ask(methodReadTextFile, map[string]any{"path": project + "/" + strings.Repeat("x", 1<<20) + ".pem"})
		if errorCode(err) != acp.CodeInvalidParams {
			t.Errorf("got %.100v", err)
		}
	}, nil)
	r.wantStop(t, r.editor.NewSession(t, project).SessionID, "go", acp.StopEndTurn)
}

// However many lines are asked for, those that there are are meant.
func TestLinesOfAnyNumbers(t *testing.T) {
	least, most, two := math.MinInt, math.MaxInt, 2
	for _, tt := range []struct {
		line, limit *int
		want        string
	}{{&two, &most, "b\n"}, {&most, &most, ""}, {&least, &two, "a\nb\n"}, {&two, &least, ""}} {
		if got := linesOf("a\nb\n", tt.line, tt.limit); got != tt.want {
			t.Errorf("%d lines from %d on: %q, want %q", *tt.limit, *tt.line, got, tt.want)
		}
	}
	one := 1
	many := strings.Repeat("\n", 1<<20)
	if n := testing.AllocsPerRun(1, func() { linesOf(many, &one, &most) }); n > 0 {
		t.Errorf("taking lines of a text of many takes memory %v times", n)
	}
}
