package probe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long an attempt waits for an answer from outside.
const patience = 2 * time.Second

// networkAttempts reach for listeners outside.
func networkAttempts() map[string]attempt {
	all := map[string]attempt{"reach": reach, "socket": rawSocket, "see": see, "bait-socket": baitSocket}
	maps.Copy(all, apart("new-device", newDevice))
	return all
}

// reach tells a listener outside the mark and reads its answer.
func reach(f Facts, args []string) ([]byte, error) {
	port := func(network, host string) string { return net.JoinHostPort(host, fmt.Sprint(f.Ports[network])) }
	switch to := strings.Join(args, " "); to {
	case "tcp4 loopback":
		return talk("tcp4", port("tcp4", "127.0.0.1"), f)
	case "tcp4 address":
		return talk("tcp4", port("tcp4", f.Address), f)
	case "tcp4 any":
		return talk("tcp4", port("tcp4", "0.0.0.0"), f)
	case "tcp6 loopback":
		return talk("tcp6", port("tcp6", "::1"), f)
	case "tcp6 mapped":
		return talk("tcp", port("tcp4", "::ffff:127.0.0.1"), f)
	case "udp4 loopback":
		return talk("udp4", port("udp4", "127.0.0.1"), f)
	case "udp4 address":
		return talk("udp4", port("udp4", f.Address), f)
	case "udp6 loopback":
		return talk("udp6", port("udp6", "::1"), f)
	case "unix stream":
		return talk("unix", filepath.Join(f.Project, streamName), f)
	case "unix in out":
		return talk("unix", filepath.Join(filepath.Dir(f.Out), streamName), f)
	case "unix stream by proc":
		if err := os.Chdir(f.Project); err != nil {
			return nil, err
		}
		return talk("unix", "/proc/self/cwd/./"+streamName, f)
	case "unix abstract":
		return talk("unix", "@"+f.Abstract, f)
	case "http proxy":
		proxy := &url.URL{Scheme: "http", Host: port("tcp4", "127.0.0.1")}
		c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}, Timeout: patience}
		res, err := c.Get("http://outside.invalid/")
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		return io.ReadAll(res.Body)
	default:
		return datagram(to, f)
	}
}

func talk(network, address string, f Facts) ([]byte, error) {
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, f.Mark); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	return b[:n], err
}

// datagram sends the mark to a socket in the project that does not answer: what it
// hears counts.
func datagram(how string, f Facts) ([]byte, error) {
	path := filepath.Join(f.Project, datagramName)
	to := &unix.SockaddrUnix{Name: path}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		pair, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if fd = pair[0]; pairErr != nil {
			return nil, errors.Join(err, pairErr)
		}
	}
	switch how {
	case "unix datagram":
		err = unix.Sendto(fd, []byte(f.Mark), 0, to)
	case "unix datagram connected":
		if err = unix.Connect(fd, to); err == nil {
			_, err = unix.Write(fd, []byte(f.Mark))
		}
	case "unix datagram by sendmsg":
		err = unix.Sendmsg(fd, []byte(f.Mark), nil, to, 0)
	default:
		err = fmt.Errorf("there is no way %q", how)
	}
	if err == nil {
		err = errors.New("sent; it remains to be seen whether it arrived")
	}
	return nil, err
}

// baitSocket connects to what stands for a helper of the person's.
func baitSocket(f Facts, args []string) ([]byte, error) {
	paths := []string{filepath.Join(f.Beside, args[0]+".sock")}
	if !f.Outside { // the real ones are left alone outside
		paths = append(paths, "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0")
	}
	err := errors.New("none is there")
	for _, path := range paths {
		var c net.Conn
		if c, err = net.DialTimeout("unix", path, patience); err == nil {
			_ = c.Close()
			return nil, nil
		}
	}
	return nil, err
}

func rawSocket(_ Facts, args []string) ([]byte, error) {
	const vsock, alg, audit = 40, 38, 9
	var fd int
	var err error
	switch args[0] {
	case "raw":
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	case "icmp":
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	case "packet":
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	case "vsock":
		fd, err = unix.Socket(vsock, unix.SOCK_STREAM, 0)
	case "alg":
		fd, err = unix.Socket(alg, unix.SOCK_SEQPACKET, 0)
	case "audit":
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, audit)
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return nil, err
}

// see looks for what belongs to the machine's network and not to the sandbox's.
func see(f Facts, args []string) ([]byte, error) {
	read := func(path string, what ...string) error {
		b, err := os.ReadFile(path)
		if err == nil && !slices.ContainsFunc(what, func(w string) bool { return strings.Contains(string(b), w) }) {
			err = errors.New("it is not there")
		}
		return err
	}
	switch args[0] {
	case "interfaces":
		list, err := net.Interfaces()
		for _, i := range list {
			if i.Flags&net.FlagLoopback == 0 && slices.Contains(f.Interfaces, i.Name) {
				return nil, nil
			}
		}
		return nil, errors.Join(err, errors.New("only loopback"))
	case "routes":
		return nil, read("/proc/net/route", f.Interfaces...)
	case "counters":
		return nil, read("/proc/net/dev", f.Interfaces...)
	case "sockets":
		return nil, read("/proc/net/unix", "@"+f.Abstract)
	}
	return nil, fmt.Errorf("there is nothing %q to see", args[0])
}

// newDevice makes a network device.
func newDevice(Facts) ([]byte, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq("probe0")
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	return nil, unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
}
