package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is the embedded supervisor, nil in builds without, and with an error where the
// kernel runs no program that is in memory.
var program = sync.OnceValues(func() (*os.File, error) {
	if len(embedded) == 0 {
		return nil, nil
	}
	file, err := inMemory(embedded)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	try := exec.CommandContext(ctx, "")
	hand(try, file)
	if err := try.Run(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
})

// hand gives a command its program, as the last of its files: by what number the file is
// open here, it need not be there.
func hand(cmd *exec.Cmd, program *os.File) {
	cmd.ExtraFiles = append(cmd.ExtraFiles, program)
	cmd.Path, cmd.Err = "/proc/self/fd/"+strconv.Itoa(2+len(cmd.ExtraFiles)), nil
}

// inMemory makes a file that nobody can change (memfd_create(2)), to be read. A kernel
// before 6.3 does not know that a file may be run; to those it always may.
func inMemory(body []byte) (*os.File, error) {
	// A program that somebody has open for writing is not run, not even a child of ours
	// that is about to execute something else: nothing may be forked meanwhile.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("gander", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("gander", flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "supervisor")
	defer func() { _ = f.Close() }()
	if _, err := f.Write(body); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(fd))
}
