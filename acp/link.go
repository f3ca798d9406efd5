package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

const (
	flushTime = 2 * time.Second // for what is queued when the connection ends in order
	closeTime = time.Second     // for a Read or Write that Close does not interrupt
)

// role is what the two ends of a connection do differently. Its methods are
// called on the reading goroutine and must not block, update excepted.
type role interface {
	request(m message)
	notify(m message)
	// update takes a session/update; it reports false when it is no such thing
	// in this role.
	update(params []byte) bool
}

// A link is one connection: the reader, the ordered writer and, between them,
// the jsonrpc2 connection that matches responses to calls.
//
// The library decodes every message several times over and ends the connection
// at the first one that it cannot. So the link is also its ObjectStream and
// hands it messages that were judged and reduced: requests without their
// parameters and with the raw id as a string, which are found again in current;
// responses with a canonical id; updates not at all.
type link struct {
	opts  Options
	rwc   io.ReadWriteCloser
	lines *lineReader
	out   *outbox
	role  role
	limit int // of outbound frames, 0 is none

	ctx    context.Context // of everything that handles a message; ends with the connection
	cancel context.CancelFunc

	rpc     *jsonrpc2.Conn
	ready   chan struct{} // closed when rpc is set
	current message       // what Handle is about; of the reading goroutine only

	complaints int // of complain; of the reading goroutine only

	asking chan struct{}   // holds a token while a call is sent, or waits for room
	params json.RawMessage // of the call that is sent, nil without; of who holds asking
	lastID atomic.Uint64
	calls  sync.Map // ids of our calls that have no response yet, as uint64

	readDone  chan struct{} // closed when the reader has read its last
	readErr   error         // why, valid then
	writeDone chan struct{}
}

// newLink makes a link whose limit of outbound frames is limit. It is at rest until start.
func newLink(ctx context.Context, rwc io.ReadWriteCloser, o *Options) *link {
	opts := o.withDefaults()
	l := &link{
		opts: opts, rwc: rwc, lines: newLineReader(rwc, opts.MaxLine), out: newOutbox(),
		asking: make(chan struct{}, 1),
		ready:  make(chan struct{}), readDone: make(chan struct{}), writeDone: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

func (l *link) start(r role) {
	l.role = r
	go func() {
		defer close(l.writeDone)
		l.out.write(l.rwc, l.opts.MaxFrame, l.opts.Trace)
	}()
	l.rpc = jsonrpc2.NewConn(context.WithoutCancel(l.ctx), l, l, jsonrpc2.SetLogger(libraryLog{l.opts.Log}))
	close(l.ready)
}

// flush writes out what is queued, as far as the peer reads it in time.
func (l *link) flush() {
	l.out.drain()
	select {
	case <-l.writeDone:
	case <-time.After(flushTime):
	}
}

// close ends reading and writing and waits for both.
func (l *link) close() error {
	l.cancel()
	l.out.fail(ErrClosed)
	_ = l.rpc.Close() // frees calls; ErrClosed when it has done so already
	err := l.rwc.Close()
	late := time.After(closeTime)
	for _, done := range []chan struct{}{l.writeDone, l.readDone} {
		select {
		case <-done:
		case <-late:
			l.opts.Log.Warn("a read or write goes on although its stream was closed")
			return err
		}
	}
	return err
}

// ReadObject implements jsonrpc2.ObjectStream. It reads on until there is a
// message for the library; updates and bad lines are dealt with here.
func (l *link) ReadObject(v any) error {
	<-l.ready
	for {
		line, err := l.lines.next()
		if errors.Is(err, errLineTooLong) {
			detail := fmt.Sprintf("the line is longer than %d bytes", l.opts.MaxLine)
			l.refuse(nil, &Error{Code: CodeParseError, Message: "Parse error", Data: map[string]string{"detail": detail}})
			continue
		}
		if err != nil {
			return l.endOfReading(err)
		}
		if l.opts.Trace != nil {
			l.opts.Trace(In, line)
		}
		size := len(line)
		if line = tidy(line); len(line) == 0 {
			continue
		}
		object := l.sort(line, size)
		if object == nil {
			continue
		}
		if err := json.Unmarshal(object, v); err != nil { // sort made it so that this cannot be
			return l.endOfReading(err)
		}
		return nil
	}
}

// maxValues bounds the values that a message is made of. Each may be two bytes on the line,
// and some hundred in memory once the message is taken apart.
const maxValues = 1 << 20

// endOfReading notes why the reader is done; the library reads no more after an error.
func (l *link) endOfReading(err error) error {
	l.readErr = err
	close(l.readDone)
	return err
}

// sort deals with one line, which had size bytes, or returns what the library is to see of it.
func (l *link) sort(line []byte, size int) []byte {
	line = mend(line)
	m, refused := parse(line)
	m.size = size
	if (refused == nil || m.response) && len(line) > 2*maxValues && crowded(line, maxValues) {
		tooMany := InvalidRequest(fmt.Sprintf("a message is made of at most %d values", maxValues))
		if m.response {
			m.result, m.err = nil, tooMany
		} else {
			refused = tooMany
		}
	}
	switch {
	case m.response && l.answers(m.id):
		return response(m)
	case refused != nil:
		l.refuse(m.id, refused)
	case m.response:
		l.complain("ignored a response to nothing that was asked", "id", string(clip(m.id)))
	case m.method == MethodSessionUpdate && m.id == nil && l.role.update(m.params):
	default:
		l.current = m
		return reduced(m)
	}
	return nil
}

// reduced is what the library sees of a request or notification.
func reduced(m message) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":`)
	b = appendString(b, m.method)
	if m.id != nil {
		b = appendString(append(b, `,"id":`...), string(m.id))
	}
	return append(b, '}')
}

// response is what the library sees of a response. A response without a result
// is how some peers write null.
func response(m message) []byte {
	if m.err != nil {
		return replyError(m.id, m.err)
	}
	if m.result == nil {
		m.result = []byte("null")
	}
	return reply(m.id, m.result)
}

// refuse answers a line that is no message. Nobody waits for a reply without an
// id, so those are dropped when the peer does not read.
func (l *link) refuse(id []byte, e *Error) {
	l.complain("refused a message", "code", e.Code, "message", e.Message, "id", string(clip(id)))
	if id != nil {
		l.send(l.errorReply(id, e))
		return
	}
	if err := l.out.add(frame{line: replyError(nil, e)}, softBacklog); err != nil {
		l.opts.Log.Debug("dropped an error reply", "err", err)
	}
}

// maxComplaints is how many messages of a peer's that are none are logged.
const maxComplaints = 100

// complain logs what is wrong with a message, as far as that has not filled the log. It
// belongs to the reading goroutine.
func (l *link) complain(what string, about ...any) {
	switch l.complaints++; {
	case l.complaints <= maxComplaints:
		l.opts.Log.Warn(what, about...)
	case l.complaints == maxComplaints+1:
		l.opts.Log.Warn("more messages are wrong; they are not logged any more")
	}
}

// fits reports whether a frame is not over the limit.
func (l *link) fits(line []byte) bool { return l.limit == 0 || len(line) <= l.limit }

// maxErrorText is how much is sent of an error's message that does not fit, in bytes.
const maxErrorText = 4 << 10

// errorReply composes an error response that fits in a frame: data that does not is
// dropped, and a message that does not is cut.
func (l *link) errorReply(id []byte, e *Error) []byte {
	line := replyError(id, e)
	if !l.fits(line) {
		line = replyError(id, &Error{Code: e.Code, Message: e.Message})
	}
	if !l.fits(line) {
		kept := strings.ToValidUTF8(e.Message[:min(len(e.Message), maxErrorText)], "")
		line = replyError(id, &Error{Code: e.Code, Message: fmt.Sprintf("%s [... %d bytes are left out here]", kept, len(e.Message)-len(kept))})
	}
	return line
}

// send queues a frame that somebody waits for.
func (l *link) send(line []byte) {
	if err := l.out.put(frame{line: line}); err != nil {
		l.opts.Log.Debug("dropped a frame", "err", err)
	}
}

// answers reports whether id is one of our calls that has no response yet, and
// counts it as answered. Our ids are positive integers; anything else is not ours.
func (l *link) answers(id []byte) bool {
	var n uint64
	if isKind(id, '"') || json.Unmarshal(id, &n) != nil {
		return false
	}
	_, ok := l.calls.LoadAndDelete(n)
	return ok
}

// Handle implements jsonrpc2.Handler; the library calls it on the reading
// goroutine, right after the ReadObject that left current.
func (l *link) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) {
	m := l.current
	l.current = message{}
	if m.isRequest() {
		l.role.request(m)
	} else {
		l.role.notify(m)
	}
}

// WriteObject implements jsonrpc2.ObjectStream for our calls and notifications. The
// library would encode parameters three times over, and write each <, > and & of them as
// six bytes: those of calls are put in here.
func (l *link) WriteObject(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if e := openEnvelope(line); e.id != nil && l.params != nil {
		line = slices.Concat(line[:len(line)-1], []byte(`,"params":`), l.params, []byte("}"))
	}
	if !l.fits(line) {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrTooLarge, len(line), l.limit)
	}
	return l.out.put(frame{line: line})
}

// Close implements jsonrpc2.ObjectStream. The library calls it when reading has
// ended; what is queued must still go out, so there is nothing to do.
func (l *link) Close() error { return nil }

// call sends a request and waits for its result. When ctx ends first it cancels
// the request at the peer and returns ctx.Err(); the answer is dropped when it comes.
func (l *link) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.turn(ctx); err != nil {
		return nil, err
	}
	id := l.lastID.Add(1)
	waiter, err := l.dispatch(ctx, id, method, params)
	<-l.asking
	if err != nil {
		l.calls.Delete(id)
		return nil, callError(err)
	}
	var result json.RawMessage
	err = waiter.Wait(ctx, &result)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		_ = l.rpc.Notify(ctx, MethodCancelRequest, map[string]uint64{"requestId": id}) // fails when closed
		return nil, ctx.Err()
	}
	return result, callError(err)
}

// dispatch sends a call, whose turn it is.
func (l *link) dispatch(ctx context.Context, id uint64, method string, params any) (w jsonrpc2.Waiter, err error) {
	if params != nil {
		if l.params, err = marshal(params); err != nil {
			return w, err
		}
		defer func() { l.params = nil }()
	}
	l.calls.Store(id, nil)
	return l.rpc.DispatchCall(ctx, method, nil, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
}

// turn waits until it is a call's turn to be sent, which l.asking holds: one at a time, and
// to a client only when it has read most of what was sent. Agents ask as much as they like,
// and a client is not given up for that.
func (l *link) turn(ctx context.Context) error {
	select {
	case l.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.limit > 0 {
		l.out.room(ctx)
	}
	if err := ctx.Err(); err != nil {
		<-l.asking
		return err
	}
	return nil
}

// ask is call with a typed result.
func (l *link) ask(ctx context.Context, method string, params, result any) error {
	raw, err := l.call(ctx, method, params)
	if err != nil {
		return err
	}
	if isNull(raw) { // how some peers say that a method returns nothing
		raw = json.RawMessage("{}")
	}
	if err := decode(raw, result); err != nil {
		return fmt.Errorf("reading the result of %s: %w", method, err)
	}
	return nil
}

// libraryLog passes what the library has to say to slog.
type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Printf(format string, v ...any) {
	l.log.Warn("jsonrpc2", "message", fmt.Sprintf(format, v...))
}

// clip bounds what of a peer's bytes goes into a log record.
func clip(b []byte) []byte { return b[:min(len(b), 100)] }
