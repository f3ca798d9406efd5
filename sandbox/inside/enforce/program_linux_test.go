package enforce

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// programUses are about the file that the Guard executes, as who has a descriptor of it.
func programUses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"the Guard's program": func(string) ([]byte, error) {
			fd, err := unix.Open("/proc/self/exe", unix.O_PATH, 0)
			if err != nil {
				return nil, err
			}
			program := fmt.Sprintf("/proc/self/fd/%d", fd)
			for change, do := range map[string]func() error{
				"its mode":     func() error { return unix.Chmod(program, 0o777) },
				"an attribute": func() error { return unix.Setxattr(program, "user.x", []byte("y"), 0) },
				"for writing":  func() error { _, err := unix.Open(program, unix.O_WRONLY, 0); return err },
				"its end":      func() error { return unix.Truncate(program, 0) },
				"another name": func() error { return unix.Linkat(fd, "", unix.AT_FDCWD, "program", unix.AT_EMPTY_PATH) },
			} {
				if err := do(); err != unix.EACCES { //nolint:errorlint // of the kernel
					return nil, fmt.Errorf("%s: %w", change, err)
				}
			}
			_, err = os.ReadFile(program)
			return []byte(secret), err
		},
	}
}

// Who has a descriptor of the Guard's program cannot change it.
func TestProgram(t *testing.T) {
	requireSupport(t)
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for who, where := range placements(t) {
		t.Run(who, func(t *testing.T) {
			dir, _ := stage(t)
			var r report
			start(t, dir, testPolicy(), where, "use", "the Guard's program").run(t, &r)
			if !r.Leak {
				t.Errorf("%s", r.Said)
			}
		})
	}
	if now, err := os.Stat("/proc/self/exe"); err != nil || now.Mode() != self.Mode() {
		t.Errorf("it was %v and is %v (%v)", self, now, err)
	}
}
