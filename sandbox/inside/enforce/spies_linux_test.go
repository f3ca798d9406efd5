package enforce

import (
	"iter"
	"maps"
)

func keys(m map[string]func(string) ([]byte, error)) iter.Seq[string] { return maps.Keys(m) }

// spies look into a process outside, whose number is in VICTIM.
func spies() map[string]func(string) ([]byte, error) {
	plain := func(s string) func(string) ([]byte, error) { return shell("", s).try }
	return map[string]func(string) ([]byte, error){
		"environ":  plain(`cat /proc/$VICTIM/environ`),
		"by tasks": plain(`cat /proc/$VICTIM/task/$VICTIM/environ`),
		"cwd":      plain(`cat /proc/$VICTIM/cwd/.env`),
		"root":     plain(`cat /proc/$VICTIM/root/$PWD/.env`),
		"ptrace": plain(`python3 - <<'E'
import ctypes,os
libc=ctypes.CDLL(None,use_errno=True)
if libc.ptrace(16,int(os.environ["VICTIM"]),0,0)==0: print("` + secret + `")
E`),
		"memory": plain(`python3 - <<'E'
import os
pid=os.environ["VICTIM"]
for line in open("/proc/%s/maps"%pid):
    if "[stack]" in line:
        a,b=[int(x,16) for x in line.split()[0].split("-")]
        m=open("/proc/%s/mem"%pid,"rb"); m.seek(a); print(m.read(b-a))
E`),
	}
}
