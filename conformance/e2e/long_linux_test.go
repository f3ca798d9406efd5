package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The promises about a thread of many entries: how much of the processor and of memory
// gander takes to show it again. Twice the time is allowed for a machine that is slower
// than the one that they were made on.
const (
	longThread  = 100_000
	longTime    = 2 * 2 * time.Second
	longMemory  = 200 << 10 // KiB
	longSession = "01a20000-0000-7000-8000-000000000001"
)

// writeThread writes the transcript of a thread of many entries: words of the agent, and
// every tenth a tool call with what it printed.
func (w *world) writeThread(cwd string) {
	w.t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":"session","schemaVersion":1,"sessionId":%q,"sessionKey":"acp:long:main","agentId":"goose","createdAt":"2026-11-20T10:00:00.000Z","workspacePath":%q,"workingPath":%q,"realPath":%q}`+"\n", longSession, cwd, cwd, cwd)
	for i := range longThread {
		update := fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":"m%d","content":{"type":"text","text":"entry %d, some words of a reply. "}}`, i/20, i)
		if i%10 == 0 {
			update = fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"ls","kind":"execute","status":"completed","content":[{"type":"content","content":{"type":"text","text":%q}}]}`, i, strings.Repeat("a line of output\n", 20))
		}
		fmt.Fprintf(&b, `{"type":"update","id":"r%d","turnId":"t%d","timestamp":%d,"update":%s}`+"\n", i, i/100, 1795199788254+i, update)
	}
	w.write(w.mkdir("gander/sessions"), longSession+".jsonl", b.String())
}

// A thread of 100,000 entries is shown again whole, in little time and memory.
func TestLongThread(t *testing.T) {
	gooseLocal.run(t, func(t *testing.T, w *world) {
		cwd, err := filepath.EvalSymlinks(w.mkdir("project"))
		if err != nil {
			t.Fatal(err)
		}
		w.writeThread(cwd)
		env := w.ganderEnv(map[string]string{"GANDER_LOG_LEVEL": "error"})
		args := w.acp()
		cmd := exec.CommandContext(soon(t), args[0], args[1:]...)
		cmd.Dir = w.dir
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		load, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": map[string]any{"sessionId": longSession, "cwd": cwd, "mcpServers": []any{}}})
		fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`+"\n%s\n", load)
		began := time.Now()
		entries, last := readThread(t, stdout)
		took, peak := time.Since(began), peakMemory(t, cmd.Process.Pid)
		if err := stdin.Close(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("gander ends with %v", err)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		t.Logf("%d entries in %v, %v of the processor in all, at most %d MiB", entries, took, used, peak>>10)
		if entries != longThread || !strings.Contains(last, fmt.Sprintf("entry %d,", longThread-1)) {
			t.Errorf("%d entries, the last update is %.300s", entries, last)
		}
		if used > longTime || peak > longMemory {
			t.Errorf("it takes %v of the processor and %d KiB, more than %v and %d", used, peak, longTime, longMemory)
		}
	})
}

// readThread counts the entries in the updates before the answer of a load, and returns
// the last update. Words of one message may come in one.
func readThread(t *testing.T, r io.Reader) (n int, last string) {
	t.Helper()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d entries: %v", n, err)
		}
		switch {
		case strings.Contains(line, `"session/update"`):
			n, last = n+strings.Count(line, "some words of a reply")+strings.Count(line, `"toolCallId"`), line
		case strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"error"`), strings.Contains(line, `"id":1,`) && strings.Contains(line, `"error"`):
			t.Fatalf("load: %s", line)
		case strings.Contains(line, `"id":1,`):
			return n, last
		}
	}
}

// peakMemory is the most memory that a process has had, in KiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}
