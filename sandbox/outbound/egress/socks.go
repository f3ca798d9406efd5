package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// SOCKS version 5, RFC 1928, with names resolved here (socks5h): CONNECT, without
// authentication, as the door is the sandbox's own.
const (
	socksVersion = 5

	socksNoAuth    = 0x00
	socksNoMethod  = 0xff
	socksConnect   = 1
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksDone      = 0
	socksNotMade   = 1
	socksRefused   = 2
	socksNoHost    = 4
	socksNoCommand = 7
	socksNoAddress = 8
)

// serveSocks serves a client to its end. The reading deadline of the greeting is set.
func (d *Door) serveSocks(c *client) {
	name, port, code, err := readSocks(c)
	if err != nil {
		d.log.Debug("a client of the proxy speaks no SOCKS5", "error", err)
		_ = c.Close()
		return
	}
	if code != socksDone {
		d.malformed(name, map[byte]string{
			socksNoCommand: "it is a SOCKS command other than CONNECT", socksNoAddress: "it is a SOCKS address of a kind that is not known, or none",
		}[code])
		_ = replySocks(c, code)
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to, err := d.reach(d.ctx, name, port)
	if err != nil {
		d.log.Debug("a connection through SOCKS was not made", "error", err)
		_ = replySocks(c, socksStatus(err))
		_ = c.Close()
		return
	}
	if replySocks(c, socksDone) != nil {
		_ = to.Close()
		_ = c.Close()
		return
	}
	d.tunnel(c, to, name, port)
}

func socksStatus(err error) byte {
	if _, ok := errors.AsType[*errRefused](err); ok {
		return socksRefused
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return socksNoHost
	}
	return socksNotMade
}

// readSocks reads the greeting and the request, and answers the greeting.
func readSocks(c io.ReadWriter) (name string, port int, code byte, err error) {
	head := make([]byte, 2)
	if _, err = io.ReadFull(c, head); err != nil {
		return
	}
	methods := make([]byte, head[1])
	if _, err = io.ReadFull(c, methods); err != nil {
		return
	}
	method := byte(socksNoMethod)
	for _, m := range methods {
		if m == socksNoAuth {
			method = socksNoAuth
		}
	}
	if _, err = c.Write([]byte{socksVersion, method}); err != nil {
		return
	}
	if method == socksNoMethod {
		return "", 0, 0, errors.New("no method without authentication was offered")
	}
	request := make([]byte, 4)
	if _, err = io.ReadFull(c, request); err != nil {
		return
	}
	if request[0] != socksVersion {
		return "", 0, 0, errors.New("the request has another version")
	}
	if name, err = readAddress(c, request[3]); err != nil || name == "" {
		return "", 0, socksNoAddress, err
	}
	number := make([]byte, 2)
	if _, err = io.ReadFull(c, number); err != nil {
		return
	}
	if request[1] != socksConnect {
		return name, 0, socksNoCommand, nil
	}
	return name, int(binary.BigEndian.Uint16(number)), socksDone, nil
}

// readAddress reads an address of a kind; it is empty for a kind that is not known.
func readAddress(r io.Reader, kind byte) (string, error) {
	size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]
	if kind == socksName {
		length := make([]byte, 1)
		if _, err := io.ReadFull(r, length); err != nil {
			return "", err
		}
		size = int(length[0])
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", err
	}
	if addr, ok := netip.AddrFromSlice(data); ok && kind != socksName {
		return addr.String(), nil
	}
	return string(data), nil
}

// replySocks answers a request. The address that was bound is nobody's business inside.
func replySocks(w io.Writer, code byte) error {
	_, err := w.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
