package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// examineKernel says what this kernel is, and which of its settings stand in the
// way of sandboxes for ordinary users.
func examineKernel() Check {
	c := Check{ID: CheckKernel, State: CheckOK, What: kernelName()}
	var against []string
	for _, f := range []struct{ file, bad, what string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off (sysctl user.max_user_namespaces)"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "ordinary users may not make user namespaces (sysctl kernel.unprivileged_userns_clone)"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns)"},
	} {
		raw, err := os.ReadFile(f.file)
		if err == nil && strings.TrimSpace(string(raw)) == f.bad {
			against = append(against, f.what)
		}
	}
	if len(against) > 0 {
		c.What += "; " + strings.Join(against, "; ")
	}
	// Root is not bound by the settings for ordinary users; whether a sandbox can
	// be made is what sandbox.start tries.
	if len(against) > 0 && os.Geteuid() != 0 {
		c.State, c.Next = checkWarn, "when sandbox.start is weaker than it should be, this is why: have your administrator change the setting"
	}
	return c
}

func kernelName() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux"
	}
	return fmt.Sprintf("%s %s %s, as uid %d", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), os.Geteuid())
}
