package enforce

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

func olderOpenCalls() []openCall { return nil }

func olderCalls() []call {
	return []call{{name: "kexec_file_load", nr: unix.SYS_KEXEC_FILE_LOAD, rule: forbid}}
}
