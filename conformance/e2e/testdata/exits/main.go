// Command exits tries every way out of a sandbox that it knows, towards the
// addresses that it is given, and says of each what came of it.
//
//	exits IPV4 IPV6 SOCKET ABSTRACT SITE NAME
//
// SITE is a server that redirects to what stands behind /to/ in its address, NAME one
// that is asked for by a name.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	port     = 4711
	mark     = "exits-71f3" // is in all that is sent
	patience = 500 * time.Millisecond
)

// An exit is one way out.
type exit struct {
	name string
	try  func() error
}

func main() {
	four, six, path, abstract := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	for _, e := range append(hosts(four, os.Args[5], os.Args[6]), catalogue(four, six, path, abstract)...) {
		if err := e.try(); err != nil {
			fmt.Printf("%s: %v\n", e.name, err)
			continue
		}
		fmt.Printf("%s: OUT\n", e.name)
	}
	fmt.Println("all tried")
}

func catalogue(four, six, path, abstract string) []exit {
	var all []exit
	add := func(name string, try func() error) { all = append(all, exit{name, try}) }
	for kind, host := range map[string]string{"IPv4": four, "IPv6": six, "IPv4 mapped": "::ffff:" + four} {
		add("TCP "+kind, func() error { return dial("tcp", host, port) })
		add("TCP to port 53 "+kind, func() error { return dial("tcp", host, 53) })
		add("UDP "+kind, func() error { return dial("udp", host, port) })
		add("DNS "+kind, func() error { return dial("udp", host, 53) })
		add("QUIC's port "+kind, func() error { return dial("udp", host, 443) })
	}
	for _, host := range []string{"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"} {
		add("metadata at "+host, func() error { return dial("tcp", host, 80) })
		add("metadata at "+host+", by a port of the test", func() error { return dial("tcp", host, port) })
	}
	add("broadcast", func() error { return dial("udp", "255.255.255.255", port) })
	add("multicast", func() error { return dial("udp", "224.0.0.251", 5353) })
	add("a name", func() error { _, err := net.LookupHost(mark + ".example.com"); return err })
	add("a name server of the image", nameservers)
	all = append(all, names(four)...)
	add("UNIX socket", func() error { return unixDial(path) })
	add("abstract UNIX socket", func() error { return unixDial("@" + abstract) })
	for name, p := range map[string]int{"SCTP": syscall.IPPROTO_SCTP, "DCCP": syscall.IPPROTO_DCCP, "MPTCP": 262} {
		add(name, func() error { return connect(syscall.SOCK_STREAM, p, four) })
	}
	add("UDP-Lite", func() error { return connect(syscall.SOCK_DGRAM, syscall.IPPROTO_UDPLITE, four) })
	add("ping", func() error { return send(syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP, four) })
	add("raw ICMP", func() error { return send(syscall.SOCK_RAW, syscall.IPPROTO_ICMP, four) })
	add("raw IP", func() error { return send(syscall.SOCK_RAW, 253, four) })
	add("raw IP with a header of its own", func() error { return send(syscall.SOCK_RAW, syscall.IPPROTO_RAW, four) })
	add("packet socket", packets)
	add("netlink: a route", func() error { return socket(syscall.AF_NETLINK, syscall.SOCK_RAW, syscall.NETLINK_ROUTE, route) })
	add("vsock", func() error { return socket(40, syscall.SOCK_STREAM, 0, vsock) })
	add("tun device", func() error { return open("/dev/net/tun") })
	add("tun device of its own", func() error {
		if err := syscall.Mknod("tun", syscall.S_IFCHR|0o600, 10<<8|200); err != nil {
			return err
		}
		return open("tun")
	})
	add("io_uring", uring)
	add("the network of process 1", func() error { return setns("/proc/1/ns/net") })
	add("a network of its own with a way out", func() error { return syscall.Unshare(syscall.CLONE_NEWNET) })
	for _, name := range []string{"HTTP_PROXY", "ALL_PROXY"} {
		add("through "+name, func() error { return proxy(os.Getenv(name), four) })
		add("through "+name+" to another spelling", func() error { return proxy(os.Getenv(name), "3325256706") })
	}
	add("a proxy where they often are", func() error { return proxy("http://"+net.JoinHostPort(four, "3128"), four) })
	return all
}

// names are games with the resolver inside, with one outside and with the addresses that names have.
func names(four string) []exit {
	var all []exit
	label := strings.Repeat("a", 63) + "."
	for _, server := range []string{"127.0.0.53", four} {
		for kind, number := range map[string]uint16{"A": 1, "CNAME": 5, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65, "ANY": 255} {
			all = append(all, exit{"a " + kind + " question at " + server, func() error { return ask(server, "c2VjcmV0."+mark+".example", number) }})
		}
		all = append(all, exit{"a long name at " + server, func() error { return ask(server, label+label+label+mark+".example", 16) }})
	}
	return append(
		all,
		exit{"a flood of names", func() (err error) {
			for i := range 300 {
				if err = ask("127.0.0.53", fmt.Sprintf("n%d.%s.example", i, mark), 1); err == nil {
					break
				}
			}
			return err
		}},
		exit{"the resolver's place", func() error { return socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0, squat) }},
		exit{"an address of no name", func() error { return say("127.64.200.200", port) }},
		exit{"an address of no route", func() error { return say("127.96.200.200", port) }},
		exit{"another port of a name", func() error { return say("example.com", port) }},
	)
}

// ask puts a question to a resolver, and fails unless it is answered with a record.
func ask(server, name string, kind uint16) error {
	c, err := net.DialTimeout("udp", net.JoinHostPort(server, "53"), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	question := []byte{7, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, part := range strings.Split(name, ".") {
		question = append(append(question, byte(len(part))), part...)
	}
	if _, err := c.Write(append(question, 0, byte(kind>>8), byte(kind), 0, 1)); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, err := c.Read(answer)
	if err == nil && (n < 12 || answer[3]&15 != 0 || answer[7] == 0) {
		err = fmt.Errorf("no such record")
	}
	return err
}

// squat takes the place of the resolver inside.
func squat(fd int) error {
	const reusePort = 15
	for _, option := range []int{syscall.SO_REUSEADDR, reusePort} {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, option, 1); err != nil {
			return err
		}
	}
	return syscall.Bind(fd, &syscall.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 53}})
}

// say sends the mark by TCP, and fails where the connection is refused or reset.
func say(host string, port int) error {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, fmt.Sprint(port)), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * patience))
	if _, err := c.Write([]byte(mark)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

func dial(network, host string, port int) error {
	c, err := net.DialTimeout(network, net.JoinHostPort(host, fmt.Sprint(port)), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // nothing is sent again later, when others are counted
	}
	_, err = c.Write([]byte(mark))
	return err
}

// hosts are ways by what may be reached.
func hosts(four, site, name string) []exit {
	get := func(address string) func() error { return func() error { return fetch("http://" + address + "/") } }
	return []exit{
		{"a redirect to an address", get(site + "/to/" + net.JoinHostPort(four, fmt.Sprint(port)))},
		{"a redirect to metadata", get(site + "/to/" + net.JoinHostPort("169.254.169.254", fmt.Sprint(port)))},
		{"a name of an address that is not public", get(name)},
	}
}

// fetch follows redirects, by the proxy where there is one.
func fetch(address string) error {
	transport := &http.Transport{DisableKeepAlives: true}
	if at, err := url.Parse(os.Getenv("HTTP_PROXY")); err == nil && at.Host != "" {
		transport.Proxy = http.ProxyURL(at)
	}
	client := &http.Client{Transport: transport, Timeout: 10 * patience}
	res, err := client.Get(address)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s: %q", res.Status, text)
	}
	return nil
}

func nameservers() error {
	data, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return err
	}
	err = fmt.Errorf("none is named")
	for host := range fields(string(data)) {
		if net.ParseIP(host) != nil && !net.ParseIP(host).IsLoopback() {
			if err = dial("udp", host, 53); err == nil {
				return nil
			}
		}
	}
	return err
}

func fields(text string) map[string]bool {
	out := map[string]bool{}
	for len(text) > 0 {
		var word string
		n, _ := fmt.Sscan(text, &word)
		if n == 0 {
			break
		}
		out[word] = true
		at := 0
		for at < len(text) && text[at:min(at+len(word), len(text))] != word {
			at++
		}
		text = text[min(at+len(word), len(text)):]
	}
	return out
}

func unixDial(path string) error {
	c, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		return err
	}
	return c.Close()
}

func address(host string) *syscall.SockaddrInet4 {
	sa := &syscall.SockaddrInet4{Port: port}
	copy(sa.Addr[:], net.ParseIP(host).To4())
	return sa
}

func socket(family, kind, protocol int, use func(fd int) error) error {
	fd, err := syscall.Socket(family, kind|syscall.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return use(fd)
}

func connect(kind, protocol int, host string) error {
	return socket(syscall.AF_INET, kind|syscall.SOCK_NONBLOCK, protocol, func(fd int) error {
		err := syscall.Connect(fd, address(host))
		if err == syscall.EINPROGRESS {
			return nil // something is on its way
		}
		if err == nil {
			_, err = syscall.Write(fd, []byte(mark))
		}
		return err
	})
}

func send(kind, protocol int, host string) error {
	echo := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}
	if protocol == syscall.IPPROTO_RAW {
		header := make([]byte, 20)
		header[0], header[3], header[8], header[9] = 0x45, 28, 64, syscall.IPPROTO_ICMP
		copy(header[16:], net.ParseIP(host).To4())
		echo = append(header, echo...)
	}
	return socket(syscall.AF_INET, kind, protocol, func(fd int) error { return syscall.Sendto(fd, echo, 0, address(host)) })
}

// packets sends a frame on every device but loopback.
func packets() error {
	return socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0x0300, func(fd int) error {
		devices, err := net.Interfaces()
		if err != nil {
			return err
		}
		err = fmt.Errorf("there is no device but loopback")
		for _, d := range devices {
			if d.Flags&net.FlagLoopback == 0 {
				frame := make([]byte, 60)
				copy(frame, "\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x88\xb5"+mark)
				err = syscall.Sendto(fd, frame, 0, &syscall.SockaddrLinklayer{Ifindex: d.Index, Halen: 6})
			}
		}
		return err
	})
}

// route asks the kernel to make a device, which needs what only an owner of the
// network has.
func route(fd int) error {
	message := make([]byte, 32)
	message[0], message[4], message[6] = 32, 16, 5 // RTM_NEWLINK, NLM_F_REQUEST|NLM_F_ACK
	if err := syscall.Sendto(fd, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	return fmt.Errorf("it was asked, which changes nothing")
}

func vsock(fd int) error {
	var sa [16]byte
	sa[0], sa[4], sa[8] = 40, 22, 2 // the host's port 22
	_, _, errno := syscall.Syscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa[0])), 16)
	if errno != 0 {
		return errno
	}
	return nil
}

func open(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

func uring() error {
	var params [120]byte
	const setup = 425
	fd, _, errno := syscall.Syscall(setup, 4, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return errno
	}
	return syscall.Close(int(fd))
}

func setns(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	number := map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]
	if _, _, errno := syscall.Syscall(number, uintptr(fd), syscall.CLONE_NEWNET, 0); errno != 0 {
		return errno
	}
	return nil
}

// proxy asks a proxy for a connection.
func proxy(at, host string) error {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return fmt.Errorf("there is none")
	}
	c, err := net.DialTimeout("tcp", u.Host, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * patience))
	if u.Scheme != "http" {
		return socks(c, host)
	}
	fmt.Fprintf(c, "CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n", host, port)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line[9:12] != "200" {
		err = fmt.Errorf("%q", line)
	}
	return err
}

func socks(c net.Conn, host string) error {
	request := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(host))}, host...)
	if _, err := c.Write(append(request, port>>8, port&255)); err != nil {
		return err
	}
	reply := make([]byte, 12)
	if _, err := io.ReadFull(c, reply); err != nil {
		return err
	}
	if reply[3] != 0 {
		return fmt.Errorf("code %d", reply[3])
	}
	return nil
}
