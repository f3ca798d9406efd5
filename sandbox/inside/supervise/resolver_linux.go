package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxQuestions bounds the questions that a resolver answers at once.
	maxQuestions = 64
	maxMessage   = 4096
	resolverPort = "53"
	resolverIdle = 10 * time.Second // of a connection by TCP
	answerAge    = 60               // seconds that an answer counts
)

// resolver answers with the addresses of those names that find knows. It asks no other
// resolver, and has addresses of IPv4 only: all else that is asked about a name has no answer.
type resolver struct {
	find    func(name string) (netip.Addr, bool)
	own     string // the machine's name, which is known
	packets []net.PacketConn
	streams []net.Listener
	slots   chan struct{}
}

func newResolver(find func(string) (netip.Addr, bool)) (*resolver, error) {
	r := &resolver{find: find, slots: make(chan struct{}, maxQuestions)}
	if own, err := os.Hostname(); err == nil {
		r.own = strings.ToLower(own)
	}
	at := []string{Resolver}
	if _, err := os.Stat(resolverFile); errors.Is(err, fs.ErrNotExist) {
		at = append(at, "127.0.0.1")
	}
	for _, addr := range at {
		addr = net.JoinHostPort(addr, resolverPort)
		packets, err := net.ListenPacket("udp4", addr)
		if err == nil {
			r.packets = append(r.packets, packets)
			var streams net.Listener
			if streams, err = net.Listen("tcp4", addr); err == nil {
				r.streams = append(r.streams, streams)
			}
		}
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("opening the sandbox's resolver: %w", err)
		}
	}
	return r, nil
}

// Close implements io.Closer.
func (r *resolver) Close() (err error) {
	for _, c := range r.packets {
		err = errors.Join(err, c.Close())
	}
	for _, l := range r.streams {
		err = errors.Join(err, l.Close())
	}
	return err
}

// serve answers until Close.
func (r *resolver) serve(wg *sync.WaitGroup) {
	for _, c := range r.packets {
		wg.Go(func() { r.servePackets(wg, c) })
	}
	for _, l := range r.streams {
		wg.Go(func() { r.serveStreams(wg, l) })
	}
}

func (r *resolver) servePackets(wg *sync.WaitGroup, c net.PacketConn) {
	for {
		message := make([]byte, maxMessage)
		n, from, err := c.ReadFrom(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		r.slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-r.slots }()
			if answer := r.answer(message[:n]); answer != nil {
				_, _ = c.WriteTo(answer, from)
			}
		})
	}
}

func (r *resolver) serveStreams(wg *sync.WaitGroup, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r.slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-r.slots }()
			defer func() { _ = c.Close() }()
			for r.serveStream(c) == nil {
			}
		})
	}
}

// serveStream answers one question.
func (r *resolver) serveStream(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(resolverIdle)); err != nil {
		return err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, message); err != nil {
		return err
	}
	answer := r.answer(message)
	if answer == nil {
		return io.ErrUnexpectedEOF
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}

// answer returns the answer to a message; nil for anything but a question.
func (r *resolver) answer(message []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil || head.Response {
		return nil
	}
	reply := dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	q, err := p.Question()
	if err != nil || head.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return built(reply, nil, netip.Addr{})
	}
	addr, known := netip.Addr{}, false
	if q.Class == dnsmessage.ClassINET {
		addr, known = r.lookUp(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	if !known || q.Type != dnsmessage.TypeA {
		addr = netip.Addr{}
	}
	return built(reply, &q, addr)
}

func (r *resolver) lookUp(name string) (netip.Addr, bool) {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || name != "" && name == r.own {
		return netip.MustParseAddr("127.0.0.1"), true
	}
	return r.find(name)
}

func built(head dnsmessage.Header, q *dnsmessage.Question, addr netip.Addr) []byte {
	m := dnsmessage.Message{Header: head}
	if q != nil {
		m.Questions = []dnsmessage.Question{*q}
	}
	if addr.IsValid() {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: answerAge},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	raw, err := m.Pack()
	if err != nil {
		return nil
	}
	return raw
}
