package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

func chunkFrame(session, kind, message, text string) frame {
	return updateFrame(SessionID(session), MessageChunk(kind, message, text), nil)
}

// texts reads the frames' texts back.
func texts(t *testing.T, frames []frame) (out []string) {
	t.Helper()
	for _, f := range frames {
		var n struct {
			Params struct {
				Update struct {
					Content struct{ Text string }
				}
			}
		}
		if err := json.Unmarshal(f.line, &n); err != nil {
			t.Fatalf("%s: %v", f.line, err)
		}
		out = append(out, n.Params.Update.Content.Text)
	}
	return out
}

func TestMergeRun(t *testing.T) {
	meta := func(v string) frame {
		return updateFrame("s", json.RawMessage(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"},"_meta":{"seq":`+v+`}}`), nil)
	}
	annotated := updateFrame("s", json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"x","annotations":{"priority":1}}}`), nil)
	image := updateFrame("s", json.RawMessage(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"image","data":"x","mimeType":"y"}}`), nil)
	plain := func(text string) frame { return chunkFrame("s", AgentMessageChunk, "m", text) }
	other := frame{line: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)}
	tests := []struct {
		name   string
		frames []frame
		n      int
		want   string
	}{
		{"same message", []frame{plain("a"), plain("é\n\"\\"), plain("c")}, 3, "aé\n\"\\c"},
		{"one", []frame{plain("a")}, 1, "a"},
		{"a response between", []frame{plain("a"), other, plain("b")}, 1, "a"},
		{"other session", []frame{plain("a"), chunkFrame("t", AgentMessageChunk, "m", "b")}, 1, "a"},
		{"other kind", []frame{plain("a"), chunkFrame("s", AgentThoughtChunk, "m", "b")}, 1, "a"},
		{"other message", []frame{plain("a"), chunkFrame("s", AgentMessageChunk, "n", "b")}, 1, "a"},
		{"no message", []frame{plain("a"), chunkFrame("s", AgentMessageChunk, "", "b")}, 1, "a"},
		{"same meta", []frame{meta("1"), meta("1")}, 2, "xx"},
		{"other meta", []frame{meta("1"), meta("2")}, 1, "x"},
		{"annotations", []frame{plain("a"), annotated}, 1, "a"},
		{"same annotations", []frame{annotated, annotated}, 2, "xx"},
		{"image", []frame{image, image}, 1, ""},
		{"too large together", []frame{plain(strings.Repeat("a", 600)), plain(strings.Repeat("b", 600))}, 1, strings.Repeat("a", 600)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := string(tt.frames[0].line)
			got, n := mergeRun(tt.frames, 1000)
			if text := texts(t, []frame{got}); n != tt.n || text[0] != tt.want {
				t.Errorf("took %d: %q", n, text)
			}
			if string(tt.frames[0].line) != before {
				t.Error("the first frame was changed")
			}
		})
	}
}

// TestMergesOnlyWhenBehind: few frames stay as they are, many become few without
// losing or reordering anything.
func TestMergesOnlyWhenBehind(t *testing.T) {
	for _, n := range []int{2, behindFrames - 1, behindFrames, 1000} {
		o := newOutbox()
		var want strings.Builder
		for i := range n {
			text := fmt.Sprintf("%d,", i)
			want.WriteString(text)
			if err := o.put(chunkFrame("s", AgentMessageChunk, "m", text)); err != nil {
				t.Fatal(err)
			}
		}
		var all []frame
		for len(o.frames) > 0 {
			batch, size, ok := o.take(defaultMaxFrame)
			if !ok {
				t.Fatal("the outbox has ended")
			}
			all = append(all, batch...)
			o.written(size)
		}
		if got := strings.Join(texts(t, all), ""); got != want.String() {
			t.Errorf("%d frames: the text changed", n)
		}
		if o.bytes != 0 {
			t.Errorf("%d frames: %d bytes left over", n, o.bytes)
		}
		if n < behindFrames && len(all) != n || n >= behindFrames && len(all) > n/10 {
			t.Errorf("%d frames became %d", n, len(all))
		}
	}
}

func TestOutboxRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		half := frame{line: make([]byte, softBacklog/2)}
		for range 2 { // with their line ends a little more than the limit
			o.room(t.Context())
			if err := o.put(half); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan string, 1)
		go func() { o.room(ctx); waited <- "room" }()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("there was no room")
		default:
		}
		_, size, _ := o.take(defaultMaxFrame)
		o.written(size)
		<-waited // it was taken and written

		_ = o.put(half)
		go func() { o.room(ctx); waited <- "cancel" }()
		synctest.Wait()
		cancel()
		<-waited // ctx ended

		go func() { o.room(t.Context()); waited <- "fail" }()
		synctest.Wait()
		o.fail(ErrClosed)
		<-waited // the outbox ended
		if err := o.put(half); err != ErrClosed {
			t.Errorf("put after the end: %v", err)
		}
	})
}

func TestOutboxHardLimit(t *testing.T) {
	o := newOutbox()
	big := frame{line: make([]byte, hardBacklog)}
	if err := o.put(big); err != nil {
		t.Fatal(err)
	}
	if err := o.add(big, hardBacklog); err != ErrBacklog {
		t.Errorf("an update over the limit: %v", err)
	}
	if o.reason() != nil {
		t.Error("an update that did not fit ended the connection")
	}
	if err := o.put(big); err != ErrBacklog || o.reason() != ErrBacklog {
		t.Errorf("a reply over the limit: %v, ended with %v", err, o.reason())
	}
}

func TestOutboxWriteFailure(t *testing.T) {
	o := newOutbox()
	_ = o.put(frame{line: []byte("{}")})
	broken := errors.New("broken pipe")
	o.write(failing{broken}, defaultMaxFrame, nil) // returns
	if o.reason() != broken {
		t.Errorf("got %v", o.reason())
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestOutboxDrain(t *testing.T) {
	o := newOutbox()
	for range 10 {
		_ = o.put(frame{line: []byte("{}")})
	}
	o.drain()
	var out strings.Builder
	o.write(&out, defaultMaxFrame, nil) // returns
	if out.String() != strings.Repeat("{}\n", 10) {
		t.Errorf("got %q", out.String())
	}
	if err := o.put(frame{}); err != ErrClosed {
		t.Errorf("put after drain: %v", err)
	}
}
