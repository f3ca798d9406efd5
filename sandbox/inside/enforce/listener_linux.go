package enforce

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests and structures of seccomp_unotify(2).
const (
	ioctlReceive  = 0xc0502100
	ioctlSend     = 0xc0182101
	ioctlIsValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104

	syncWakeUp  = 1      // Linux 6.6
	addAndSend  = 1 << 1 // of addFD
	goOn        = 1      // of response
	invalidated = unix.ENOENT
)

type notification struct {
	id    uint64
	pid   uint32 // a thread's
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

type addFD struct {
	id       uint64
	flags    uint32
	source   uint32
	target   uint32
	newFlags uint32
}

// listener is the descriptor that Install returned.
type listener int

func (l listener) ioctl(request uintptr, arg unsafe.Pointer) (uintptr, unix.Errno) {
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(arg))
	return r, e
}

// prepare makes the kernel hand over the processor with the notification, where it can.
func (l listener) prepare() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), ioctlSetFlags, syncWakeUp)
}

// forever is as long as it takes, for await.
const forever = -time.Millisecond

// receiveEnds reports whether to receive ends when no process with the filter is left.
// Before Linux 6.11 it waits for ever then.
var receiveEnds = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 11)
})

// next waits for a call and takes it, unless its caller died meanwhile, and reports whether
// none will come any more.
func (l listener) next(n *notification) (called, over bool) {
	if receiveEnds() {
		if l.receive(n) {
			return true, false
		}
		_, over = l.await(0)
		return false, over
	}
	called, over = l.await(forever)
	return called && l.receive(n), over
}

// await waits until there is a call, and reports whether one came in time, and whether
// none will come any more, as no process with the filter is left.
func (l listener) await(atMost time.Duration) (called, over bool) {
	events := l.poll(atMost)
	called = events&unix.POLLIN != 0
	return called, !called && events&(unix.POLLHUP|unix.POLLNVAL) != 0
}

// receive takes a call that has come, unless its caller died meanwhile.
func (l listener) receive(n *notification) bool {
	*n = notification{}
	_, e := l.ioctl(ioctlReceive, unsafe.Pointer(n))
	return e == 0
}

// pending reports whether more calls wait to be received.
func (l listener) pending() bool { return l.poll(0)&unix.POLLIN != 0 }

func (l listener) poll(atMost time.Duration) int16 {
	p := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
	if _, err := unix.Poll(p, int(atMost.Milliseconds())); err != nil {
		return 0
	}
	return p[0].Revents
}

// valid reports whether the caller still waits: its thread id means what it meant.
func (l listener) valid(id uint64) bool {
	_, e := l.ioctl(ioctlIsValid, unsafe.Pointer(&id))
	return e == 0
}

func (l listener) send(r response) { _, _ = l.ioctl(ioctlSend, unsafe.Pointer(&r)) }

// reply answers a call.
func (l listener) reply(id uint64, a answer) {
	switch {
	case a.file >= 0:
		l.inject(id, a)
	case a.proceed:
		l.send(response{id: id, flags: goOn})
	default:
		l.send(response{id: id, err: -int32(a.err)})
	}
}

// inject puts a descriptor into the caller. Of a file that can be written, our
// own must be closed before the caller goes on: who executes a file that is open
// for writing anywhere gets ETXTBSY.
func (l listener) inject(id uint64, a answer) {
	add := addFD{id: id, source: uint32(a.file), newFlags: uint32(a.flags & unix.O_CLOEXEC)}
	if a.flags&unix.O_ACCMODE == unix.O_RDONLY {
		add.flags = addAndSend
		_, e := l.ioctl(ioctlAddFD, unsafe.Pointer(&add))
		_ = unix.Close(a.file)
		if e != 0 && e != invalidated {
			l.send(response{id: id, err: -int32(e)})
		}
		return
	}
	fd, e := l.ioctl(ioctlAddFD, unsafe.Pointer(&add))
	_ = unix.Close(a.file)
	if e != 0 {
		l.send(response{id: id, err: -int32(e)})
		return
	}
	l.send(response{id: id, value: int64(fd)})
}

// answer is what the Guard makes of a call.
type answer struct {
	file    int        // a descriptor for the caller, or -1
	flags   int        // those it was opened with
	proceed bool       // let the kernel carry the call out: only where nothing that was judged can change
	err     unix.Errno // the caller's error, 0 for success
}

func done(err unix.Errno) answer { return answer{file: -1, err: err} }

func proceed() answer { return answer{file: -1, proceed: true} }

func opened(fd, flags int, err unix.Errno) answer {
	if err != 0 {
		return done(err)
	}
	return answer{file: fd, flags: flags}
}
