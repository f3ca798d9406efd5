package enforce

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// script is ordinary work that ends with the word fine.
func script(s string) func(string) ([]byte, error) {
	return func(dir string) ([]byte, error) {
		cmd := exec.Command("/usr/bin/timeout", "60", "/bin/bash", "-ec", s+"\necho "+secret) // the mark of success
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
}

// uses are what people and their tools do all day.
func uses() map[string]func(string) ([]byte, error) {
	return map[string]func(string) ([]byte, error){
		"files":          script(`echo a > a; cat a; cp a b; mv b c; ln a d; ln -s a e; cat e d; rm a c d e; mkdir -p x/y; rmdir x/y; rm -r x`),
		"editors' saves": script(`echo 1 > f; echo 2 > f.tmp; mv f.tmp f; grep -q 2 f; sed -i s/2/3/ f; grep -q 3 f; test "$(stat -c %a f)" = 666`),
		"umask":          script(`umask 027; echo > f; test "$(stat -c %a f)" = 640; mkdir d; test "$(stat -c %a d)" = 750`),
		"owner":          script(`echo > f; test "$(stat -c %u f)" = "$(id -u)"`),
		"exclusive":      script(`set -o noclobber; echo > f; ! echo > f 2>/dev/null`),
		"appending":      script(`echo a > f; echo b >> f; test "$(wc -l < f)" = 2; truncate -s 1 f; test "$(stat -c %s f)" = 1`),
		"temporary":      script(`t=$(mktemp); echo > "$t"; rm "$t"; python3 -c 'import tempfile; f=tempfile.TemporaryFile(); f.write(b"x"); f.close()'`),
		"unnamed file":   script(`python3 -c 'import os; f=os.open(".",os.O_TMPFILE|os.O_RDWR,0o600); os.write(f,b"x"); os.set_inheritable(f,True); os.execvp("ln",["ln","-L","/proc/self/fd/%d"%f,"named"])'; test -s named`),
		"devices":        script(`echo > /dev/null; head -c 8 /dev/urandom | wc -c; head -c 1 /dev/zero > /dev/null; : > /dev/stderr; echo x > /dev/stdout`),
		"pipes and fifos": script(`mkfifo p; (echo hello > p &) ; read -r l < p; test "$l" = hello; echo y | cat | grep -q y
ln -s p q; for i in 1 2 3 4 5 6 7 8 9 10; do (echo $i > q &) ; test "$(cat q)" = $i; done`),
		"descriptors' names": script(`exec 77< open; cat /dev/fd/77 | grep -q .; cat /proc/self/fd/77 > /dev/null; cd /proc; cat self/fd/77 > /dev/null; cd - > /dev/null
cat <(echo one) <(echo two) | grep -q two; echo three > >(cat > got); for i in 1 2 3 4 5 6 7 8 9 10; do test -s got || sleep 0.1; done; grep -q three got
echo 4 | cat /dev/stdin | grep -q 4; ln -s /proc/self/fd/77 link; cat link > /dev/null; ! cat /dev/fd/78 2> /dev/null`),
		"descriptors without names": script(`python3 - <<'E'
import os,threading
def again(fd, flags, of="self"): return os.open("/proc/%s/fd/%d" % (of, fd), flags)
r, w = os.pipe(); m = os.memfd_create("m"); gone = os.open("gone", os.O_CREAT|os.O_RDWR); os.unlink("gone")
for of in "self", "thread-self", str(os.getpid()), "self/task/%d" % os.getpid():
    os.write(again(w, os.O_WRONLY, of), b"x"); assert os.read(again(r, os.O_RDONLY, of), 9) == b"x"
    for fd in m, gone:
        os.write(again(fd, os.O_WRONLY, of), b"y"); assert os.read(again(fd, os.O_RDONLY, of), 9) == b"y"
pid = os.fork()
if pid == 0: os.write(again(w, os.O_WRONLY, str(os.getppid())), b"z"); os._exit(0)
assert os.waitpid(pid, 0)[1] == 0 and os.read(r, 9) == b"z"
E`),
		"confined by Landlock": script(`python3 - <<'E'
import ctypes,errno,struct
c=ctypes.CDLL(None,use_errno=True); c.prctl(38,1,0,0,0)
rules=c.syscall(444,struct.pack("Q",1<<2),8,0) # of which none lets a file be read
if rules<0: assert ctypes.get_errno()==errno.ENOSYS
else:
    assert c.syscall(446,rules,0)==0
    try: open("open")
    except PermissionError: pass
    else: raise AssertionError("it holds nothing")
E`),
		"process of mine": script(`cat /proc/self/status > /dev/null; cat /proc/$$/maps > /dev/null; ls /proc/self/fd > /dev/null; cat /proc/meminfo > /dev/null`),
		"self, by threads": script(`python3 - <<'E'
import os,threading
def look():
    for link, task in (("self", os.getpid()), ("thread-self", threading.get_native_id())):
        number = open("/proc/%s/stat" % link).read().split()[0]
        assert int(number) == task, (link, number, task)
        assert ("Pid:\t%d\n" % task) in open("/proc/%s/./status" % link).read(), link
    assert open("/proc/self/../self/environ").read() == open("/proc/%d/environ" % os.getpid()).read()
    for missing in "/proc/self/nothing", "/proc/self/maps/nothing":
        try: open(missing)
        except OSError: continue
        raise AssertionError(missing)
    with open("/proc/self/comm", "w") as f: f.write("named")
    assert open("/proc/self/comm").read() == "named\n"
look()
failed=[]
def other():
    try: look()
    except BaseException as e: failed.append(e)
t=threading.Thread(target=other); t.start(); t.join()
if failed: raise failed[0]
E`),
		"modes": script(`mkdir -p d/e; echo > d/f; chmod 750 d; test "$(stat -c %a d)" = 750; chmod -R u=rwX,go= d; test "$(stat -c %a d/f)" = 600; chmod 2775 d/e; test "$(stat -c %a d/e)" = 2775
ln -s f d/l; chmod 4711 d/l; test "$(stat -c %a d/f)" = 4711; chmod 0 d/e; chmod 700 d/e; cp -a d c; test "$(stat -c %a c/f)" = 4711; chmod 644 d/f; mkfifo p; chmod 600 p
python3 - <<'E'
import ctypes,errno,os,socket,tempfile
def fails(e, f, *a, **k):
    try: f(*a, **k)
    except OSError as x: assert x.errno == e, (f, a, x)
    else: raise AssertionError((f, a))
os.fchmod(os.open("d/f", os.O_RDONLY), 0o600); assert os.stat("d/f").st_mode & 0o7777 == 0o600
os.chmod("f", 0o640, dir_fd=os.open("d", os.O_PATH)); assert os.stat("d/f").st_mode & 0o7777 == 0o640
t=tempfile.TemporaryFile(); os.fchmod(t.fileno(), 0o444); assert os.fstat(t.fileno()).st_mode & 0o7777 == 0o444
r,w=os.pipe(); s=socket.socket(); os.fchmod(r, 0o600); os.fchmod(s.fileno(), 0o600)
m=os.memfd_create("m"); os.fchmod(m, 0o500); assert os.fstat(m).st_mode & 0o7777 == 0o500
fails(errno.EBADF, os.fchmod, 999, 0); fails(errno.EBADF, os.fchmod, -1, 0); fails(errno.ENOENT, os.chmod, "none", 0); fails(errno.ENOENT, os.chmod, "", 0)
fails(errno.ENOTDIR, os.chmod, "d/f/", 0)
c=ctypes.CDLL(None,use_errno=True)
def latest(*a): return c.syscall(452, *a) and ctypes.get_errno()
assert latest(-100, b"d/l", 0o600, 0x100) == errno.EOPNOTSUPP and latest(-100, b"d/l", 0o600, 1) == errno.EINVAL and latest(os.open("d/f", os.O_PATH), b"", 0o604, 0x1000) == 0
assert os.stat("d/f").st_mode & 0o7777 == 0o604
try: os.setxattr("d/f", "user.x", b"")
except OSError as x: assert x.errno == errno.EOPNOTSUPP
else:
    os.setxattr("d/f", "user.x", b"y"*100); os.setxattr(os.open("d/f", os.O_RDONLY), "user.y", b"z"); os.setxattr("d/l", "user.z", b"z")
    assert os.getxattr("d/f", "user.x") == b"y"*100 and sorted(os.listxattr("d/f")) == ["user.x", "user.y", "user.z"]
    fails(errno.EEXIST, os.setxattr, "d/f", "user.x", b"", os.XATTR_CREATE); fails(errno.E2BIG, os.setxattr, "d/f", "user.x", b"y"*65537); fails(errno.ERANGE, os.setxattr, "d/f", "user."+"x"*251, b"")
    fails(errno.EPERM, os.setxattr, "d/l", "user.x", b"", follow_symlinks=False); fails(errno.ENODATA, os.removexattr, "d/f", "user.none")
    os.removexattr("d/f", "user.x"); os.removexattr(os.open("d/f", os.O_RDONLY), "user.y"); assert os.listxattr("d/f") == ["user.z"]
E`),
		"locks":            script(`flock l true; flock -s l cat l`),
		"mmap":             script(`python3 -c 'import mmap; f=open("m","w+b"); f.write(b"x"*4096); f.flush(); m=mmap.mmap(f.fileno(),0); m[0:1]=b"y"; m.flush()'; grep -q ^y m`),
		"compile and run":  script(`for i in 1 2 3 4 5; do printf '#!/bin/sh\necho ran' > s$i; chmod +x s$i; ./s$i | grep -q ran; done`),
		"copy and execute": script(`for i in 1 2 3 4 5 6 7 8 9 10; do cp /bin/true t$i; ./t$i; done`),
		"threads":          script(`python3 -c 'import threading; [threading.Thread(target=lambda: open("open").read()).start() for _ in range(50)]'`),
		"many at once":     script(`for i in $(seq 40); do (cat open > /dev/null; echo > f$i) & done; wait; test "$(ls f* | wc -l)" = 40`),
		"tail -f":          script(`echo 1 > log; (timeout 5 tail -n +1 -f log > got & echo $! > pid; wait) & sleep 0.5; echo 2 >> log; sleep 1; kill $(cat pid) || true; wait; grep -q 2 got`),
		"tar":              script(`mkdir a; echo 1 > a/b; tar cf t.tar a; rm -r a; tar xf t.tar; grep -q 1 a/b`),
		"find and grep":    script(`find . -name plain | grep -q plain; grep -r plain sub | grep -q plain`),
		"unix sockets": script(`python3 - <<'E'
import socket,threading
s=socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
def serve():
    while True:
        c,_=s.accept()
        try: c.sendall(b"hi")
        except OSError: continue # whoever asked only who listens
        c.close()
threading.Thread(target=serve,daemon=True).start()
c=socket.socket(socket.AF_UNIX); c.connect("sock"); assert c.recv(2)==b"hi"
E`),
		"tcp": script(`python3 - <<'E'
import socket,threading
s=socket.create_server(("127.0.0.1",0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"hi")).start()
assert socket.create_connection(s.getsockname()).recv(2)==b"hi"
E`),
		"debugging a child": script(`python3 - <<'E'
import ctypes,os,signal
libc=ctypes.CDLL(None,use_errno=True)
pid=os.fork()
if pid==0:
    signal.pause()
assert libc.ptrace(16,pid,0,0)==0, os.strerror(ctypes.get_errno())
os.kill(pid,9)
E`),
		"a terminal":      script(`python3 -c 'import pty; pty.spawn(["sh","-c","echo > /dev/tty"])' < /dev/null`),
		"git":             script(`git init -q . && git -c user.name=a -c user.email=a@b add open sub && git -c user.name=a -c user.email=a@b commit -qm x && git status --porcelain > /dev/null && git log --oneline | grep -q x`),
		"a long path":     script(`d=$(printf 'x%.0s' $(seq 200)); for i in 1 2 3 4 5 6 7 8 9 10; do mkdir $d; cd $d; done; echo > f; cat f`),
		"directory moves": script(`mkdir -p m/n; echo 1 > m/n/f; mv m o; cat o/n/f; mkdir q; mv o q/; cat q/o/n/f`),
		"closed is EACCES": script(`python3 - <<'E'
import errno
try: open(".env")
except OSError as e: assert e.errno==errno.EACCES, e
else: raise SystemExit("opened")
try: open("absent")
except OSError as e: assert e.errno==errno.ENOENT, e
try: open("sub/plain/x")
except OSError as e: assert e.errno==errno.ENOTDIR, e
try: open("sub","w")
except OSError as e: assert e.errno==errno.EISDIR, e
E`),
		"a signal for who waits": script(`python3 - <<'E'
import ctypes,errno,os,signal,threading,time
os.mkfifo("p")
libc=ctypes.CDLL(None,use_errno=True)
signal.signal(signal.SIGALRM,lambda *_: None); signal.alarm(1)
assert libc.open(b"p",0)==-1 and ctypes.get_errno()==errno.EINTR
writer=os.fork()
if writer==0:
    time.sleep(2); os.write(os.open("p",os.O_WRONLY),b"x"); os._exit(0)
signal.siginterrupt(signal.SIGALRM,False); signal.alarm(1) # SA_RESTART
fd=libc.open(b"p",0)
if fd<0: os.kill(writer,9)
assert fd>=0 and os.read(fd,1)==b"x",(fd,ctypes.get_errno())
os.close(fd); os.waitpid(writer,0)
class Over(Exception): pass
def over(*_): raise Over
signal.signal(signal.SIGALRM,over); signal.alarm(1)
try: os.open("p",os.O_RDONLY); raise SystemExit("opened")
except Over: pass
came=[]
signal.signal(signal.SIGALRM,lambda *_: came.append(1)); signal.siginterrupt(signal.SIGALRM,False); signal.alarm(1)
def write():
    time.sleep(2); fd=os.open("p",os.O_WRONLY); os.write(fd,b"x"); os.close(fd)
writer=threading.Thread(target=write); writer.start()
fd=os.open("p",os.O_RDONLY); assert os.read(fd,1)==b"x"; writer.join()
assert came
pid=os.fork()
if pid==0:
    signal.signal(signal.SIGINT,lambda *_: None); os.open("p",os.O_RDONLY); os._exit(0)
time.sleep(.5); os.kill(pid,signal.SIGINT); time.sleep(.5); os.kill(pid,signal.SIGTERM)
assert os.WTERMSIG(os.waitpid(pid,0)[1])==signal.SIGTERM
E`),
		"a terminal that was never open": script(`python3 - <<'E'
import fcntl,os,struct
master=os.open("/dev/ptmx",os.O_RDWR|os.O_NOCTTY)
fcntl.ioctl(master,0x40045431,struct.pack("i",0)) # TIOCSPTLCK
name="/dev/pts/%d"%struct.unpack("i",fcntl.ioctl(master,0x80045430,bytes(4)))[0] # TIOCGPTN
os.symlink(name,"slave")
for path in name,"slave":
    pid=os.fork()
    if pid==0:
        os.close(master)
        slave=os.open(path,os.O_RDWR|os.O_NOCTTY); os.write(slave,b"yes"); os.read(slave,1); os._exit(0)
    assert os.read(master,9)==b"yes",path
    break_=os.open(name,os.O_RDWR|os.O_NOCTTY) # no hang-up between the two
    os.write(master,b"\n"); os.waitpid(pid,0); os.read(master,9)
E`),
		"default ACL": script(`python3 - <<'E'
import os,stat,struct
os.mkdir("d")
entry=lambda tag,perm: struct.pack("<HHI",tag,perm,0xffffffff)
os.setxattr("d","system.posix_acl_default",struct.pack("<I",2)+entry(1,7)+entry(4,7)+entry(32,5))
os.umask(0o077)
mode=lambda path: stat.S_IMODE(os.stat(path).st_mode)
open("d/f","w").close(); os.mkdir("d/d"); os.mkfifo("d/p"); open("f","w").close()
got=[mode(p) for p in ("d/f","d/d","d/p","f")]
assert got==[0o664,0o775,0o664,0o600],[oct(m) for m in got]
E`),
		"no descriptor left": script(`python3 - <<'E'
import errno,os,resource
with open("full","w") as f: f.write("text")
resource.setrlimit(resource.RLIMIT_NOFILE,(40,40))
fds=[]
try:
    while True: fds.append(os.open("full",os.O_RDONLY))
except OSError as e: assert e.errno==errno.EMFILE,e
for path,flags in ("new",os.O_CREAT|os.O_WRONLY),("full",os.O_TRUNC|os.O_WRONLY),(".",os.O_TMPFILE|os.O_WRONLY):
    try: os.open(path,flags,0o600)
    except OSError as e: assert e.errno==errno.EMFILE,(path,e)
    else: raise SystemExit("opened "+path)
assert not os.path.exists("new") and os.stat("full").st_size==4
os.close(fds.pop()); os.close(os.open("new",os.O_CREAT|os.O_WRONLY)); assert os.path.exists("new")
E`),
		"a limit of files": script(`python3 - <<'E'
import errno,os,resource,signal
def fails(e, f, *a):
    try: f(*a)
    except OSError as x: assert x.errno == e, (a, x)
    else: raise AssertionError(a)
with open("f","w") as f: f.write("x"*100)
resource.setrlimit(resource.RLIMIT_FSIZE,(50,50))
got=[]
signal.signal(signal.SIGXFSZ, lambda *a: got.append(a))
fails(errno.EFBIG, os.truncate, "f", 101)
os.truncate("f", 99); fails(errno.EFBIG, os.truncate, "f", 100); os.truncate("f", 0); os.truncate("f", 50); fails(errno.EFBIG, os.truncate, "f", 51)
fails(errno.EINVAL, os.truncate, "f", -1)
assert os.stat("f").st_size==50 and len(got)==3
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
pid=os.fork()
if pid==0: os.truncate("f", 51); os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid,0)[1]) == -signal.SIGXFSZ
E`),
		"a directory that others rename": script(`python3 - <<'E'
import ctypes,os,time
for name in "one","two":
    os.mkdir(name)
    with open(name+"/f","w") as f: f.write(name)
top=os.getcwd().encode(); libc=ctypes.CDLL(None); os.chdir("one")
pid=os.fork()
if pid==0:
    while os.getppid()!=1: libc.renameat2(-100,top+b"/one",-100,top+b"/two",2)
    os._exit(0)
dir=os.open(".",os.O_PATH); got={"one":0}; end=time.time()+2
while time.time()<end:
    for at in None,dir:
        with open(os.open("f",os.O_RDONLY,dir_fd=at)) as f: text=f.read()
        got[text]=got.get(text,0)+1
os.kill(pid,9); os.waitpid(pid,0)
assert list(got)==["one"],got
E`),
		"descriptors of a thread": script(`python3 - <<'E'
import ctypes,socket,threading
s=socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen()
failed=[]
def alone():
    try:
        assert ctypes.CDLL(None).unshare(0x400)==0 # CLONE_FILES
        extra=[socket.socket(socket.AF_UNIX) for _ in range(20)]
        extra[-1].connect("sock")
    except BaseException as e: failed.append(e)
t=threading.Thread(target=alone); t.start(); t.join()
if failed: raise failed[0]
E`),
		"errors": script(`rm -f sub/.rules absent; python3 - <<'E'
import ctypes,errno,os
def fails(want,do,*args,**named):
    try: do(*args,**named)
    except OSError as e: assert e.errno==want,(args,e)
    else: raise SystemExit("no error: %r"%(args,))
fails(errno.EISDIR,os.open,"sub",os.O_RDONLY|os.O_TRUNC)
fails(errno.EEXIST,os.open,".",os.O_WRONLY|os.O_CREAT|os.O_EXCL)
fails(errno.EINVAL,os.open,".",os.O_TMPFILE|os.O_RDONLY)
fails(errno.EINVAL,os.open,".",os.O_TMPFILE|os.O_CREAT|os.O_RDWR)
fails(errno.EINVAL,os.open,"absent",os.O_CREAT|os.O_DIRECTORY|os.O_WRONLY)
libc=ctypes.CDLL(None,use_errno=True)
assert libc.linkat(-100,b"open",-100,b"other",0x800)==-1 and ctypes.get_errno()==errno.EINVAL
with open("text","w") as f: f.write("text")
os.close(os.open("text",os.O_TRUNC|3)); assert os.stat("text").st_size==0
E`),
		"names of what is made": script(`echo 1 > a_; mv a_ a.pack; grep -q 1 a.pack; echo 2 > b_; ln b_ b.pack; grep -q 2 b.pack; rm b_; grep -q 2 b.pack; echo 3 > c_; mv c_ a.pack; grep -q 3 a.pack
mv a.pack d.pack; grep -q 3 d.pack; mv d.pack d_; mv d_ d.pack; echo 4 >> d.pack; grep -q 4 d.pack
no() { if "$@" 2> /dev/null; then exit 1; fi; }
no cat theirs.pack; no ln theirs.pack e.pack; no mv theirs.pack e.pack; no mv theirs.pack e_; no mv d.pack theirs.pack; no cat theirs.pack`),
		"talking outside":           plainScript(`python3 -c 'import socket; c=socket.socket(socket.AF_UNIX); c.connect("helper"); c.sendall(b"x"); print("` + secret + `")'`),
		"reading an alias":          plainScript(`cat "$OUT/alias/.env"; cat "$OUT/alias/sub/../.env"; cd "$OUT/alias" && cat .env private/key`),
		"reading what is read-only": script(`grep -q closed .rules`),
		"directories in turns": script(`python3 - <<'E'
import os,threading
for name in "a","b","c":
    os.mkdir(name)
    with open(name+"/f","w") as f: f.write(name)
with open("f","w") as f: f.write("top")
a,b=os.open("a",os.O_RDONLY),os.open("b",os.O_RDONLY)
def reads(dir,want,times=3):
    for _ in range(times):
        fd=os.open("f",os.O_RDONLY,dir_fd=dir)
        got=os.read(fd,9).decode()
        os.close(fd)
        assert got==want,(dir,want,got)
for times in 1,2,3: reads(a,"a",times); reads(b,"b",times); reads(None,"top",times)
os.rename("a","d"); reads(a,"a")
os.dup2(b,a); reads(a,"b")
os.chdir("c"); reads(None,"c")
other=threading.Thread(target=reads,args=(b,"b",50)); other.start(); reads(None,"c",50); other.join()
for want in "b","c","top":
    pid=os.fork()
    if pid==0:
        os.chdir({"b":"../b","c":".","top":".."}[want]); reads(None,want); os._exit(0)
    assert os.waitpid(pid,0)[1]==0,want
reads(None,"c")
E`),
		"reading again and again": script(`python3 - <<'E'
import os
want=open("open").read()
assert want
for i in range(20000):
    fd=os.open("open",os.O_RDONLY)
    assert fd>2, "open gave %d in round %d"%(fd,i)
    assert os.read(fd,100).decode()==want[:100], i
    os.close(fd)
E`),
	}
}

// plainScript is one that may not do what it tries.
func plainScript(s string) func(string) ([]byte, error) { return shell("", s).try }

// tries are uses that are meant to fail.
func tries() []string {
	return []string{"talking outside", "reading an alias", "names of what is made"}
}

func TestUses(t *testing.T) {
	requireSupport(t)
	for who, where := range placements(t) {
		for name := range uses() {
			if slices.Contains(tries(), name) {
				continue
			}
			t.Run(who+"/"+name, func(t *testing.T) {
				controlDir, _ := stage(t)
				if c := perform(attack{"", uses()[name]}, controlDir); name != "closed is EACCES" && !c.Leak {
					t.Fatalf("the work fails outside, too: %s", c.Said)
				}
				dir, _ := stage(t)
				var r report
				start(t, dir, testPolicy(), where, "use", name).run(t, &r)
				if !r.Leak {
					t.Errorf("ordinary work fails inside: %s", r.Said)
				}
			})
		}
	}
}

// Signals of this process, as the runtime and the ends of children cause them, do
// not reach the threads that answer: the kernel would give the caller descriptor 0
// when one came while its file was put into it.
func TestSignals(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	s := start(t, dir, testPolicy(), placement{}, "use", "reading again and again")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			threads, _ := os.ReadDir("/proc/self/task")
			for _, e := range threads {
				if id, err := strconv.Atoi(e.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG)
				}
			}
		}
	}()
	var r report
	s.run(t, &r)
	close(stop)
	<-stopped
	if !r.Leak {
		t.Errorf("reading fails: %s", r.Said)
	}
}

// race reads the closed file by several ways until the host says stop.
func race(dir string) map[string]int {
	counts := map[string]int{}
	ways := []string{dir + "/.env", ".env", "sub/../.env", "/proc/self/cwd/.env", "link"}
	for i := 0; ; i++ {
		b, err := os.ReadFile(ways[i%len(ways)])
		if bytes.Contains(b, []byte(secret)) {
			counts["leaks"]++
		}
		if err == nil {
			counts["opened"]++
		}
		if counts["reads"]++; counts["reads"]%50 == 0 {
			if _, err := os.Stat("stop"); err == nil {
				return counts
			}
		}
	}
}

// climbs is what climb did.
type climbs struct{ Tried, Read, Written, Missed int64 }

// climb opens what is above a directory by way of it, and what is in it.
func climb(dir string) (done climbs) {
	var wg sync.WaitGroup
	up := "/a/" + strings.Repeat("b/../", 700)
	moved, err := unix.Open("a/b", unix.O_PATH|unix.O_DIRECTORY, 0)
	for err != nil { // it is away
		moved, err = unix.Open("a/b", unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	for _, way := range []string{dir + up, "." + up} {
		wg.Go(func() {
			for {
				for range 20 {
					atomic.AddInt64(&done.Tried, 1)
					if fd, err := unix.Open(way+"closed", unix.O_RDONLY, 0); err == nil {
						atomic.AddInt64(&done.Read, 1)
						_ = unix.Close(fd)
					}
					if fd, err := unix.Open(way+"protected", unix.O_WRONLY|unix.O_APPEND, 0); err == nil {
						atomic.AddInt64(&done.Written, 1)
						_ = unix.Close(fd)
					}
					for range 50 { // a way up takes as long
						fd, err := unix.Openat(moved, "there", unix.O_RDONLY, 0)
						if err != nil {
							atomic.AddInt64(&done.Missed, 1)
							continue
						}
						_ = unix.Close(fd)
					}
				}
				if _, err := os.Stat("stop"); err == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return done
}

// Where ".." leads changes when the directory before it is moved. What is opened by such
// a path is judged by where it is. What is in the directory is found wherever it is.
func TestClimbing(t *testing.T) {
	requireSupport(t)
	for who, where := range placements(t) {
		t.Run(who, func(t *testing.T) { testClimbing(t, where) })
	}
}

func testClimbing(t *testing.T, where placement) {
	dir, _ := stage(t)
	for _, name := range []string{"a", "a/b", "config"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"closed", "protected"} {
		path := filepath.Join(dir, "config", name)
		if err := errors.Join(os.WriteFile(path, []byte(secret), 0o666), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/there"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := &rules{closed: []string{"/config/closed"}, readOnly: []string{"/config/protected"}}
	s := start(t, dir, func() Policy { return p }, where, "climb")
	one, other := filepath.Join(dir, "a/b"), filepath.Join(dir, "config/b")
	for over := time.Now().Add(10 * time.Second); time.Now().Before(over); { // here, as it is a hundred times as often
		if err := errors.Join(os.Rename(one, other), os.Rename(other, one)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var done climbs
	s.run(t, &done)
	t.Logf("%+v", done)
	if done.Tried < 100 || done.Read > 0 || done.Written > 0 {
		t.Errorf("closed files were opened: %+v", done)
	}
	if done.Missed > 0 {
		t.Errorf("what is in a directory that is moved was not found: %+v", done)
	}
}

// The host replaces the closed file again and again, as editors do, while it is
// being read.
func TestHostReplaces(t *testing.T) {
	requireSupport(t)
	rounds := 50
	if n := os.Getenv("GANDER_RACE_ROUNDS"); n != "" {
		if _, err := fmt.Sscan(n, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	for who, where := range placements(t) {
		t.Run(who, func(t *testing.T) { testHostReplaces(t, where, rounds) })
	}
}

func testHostReplaces(t *testing.T, where placement, rounds int) {
	dir, out := stage(t)
	if err := os.Symlink(".env", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir, testPolicy(), where, "race")
	for i := range rounds {
		s.waitDenied(t, 5*i+1)                 // every way in each round, so that the reader reads all the while
		temporary := filepath.Join(out, "new") // outside, or under a closed name
		if i%2 == 0 {
			temporary = filepath.Join(dir, "sub", ".env")
		}
		if err := os.WriteFile(temporary, []byte(secret), 0o666); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := os.Remove(filepath.Join(dir, ".env")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(temporary, filepath.Join(dir, ".env")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var counts map[string]int
	s.run(t, &counts)
	t.Logf("%d replacements, %v", rounds, counts)
	if counts["leaks"] > 0 || counts["opened"] > 0 || counts["reads"] < 5*rounds {
		t.Errorf("%v", counts)
	}
}

// The policy of the moment counts for the next open.
func TestPolicyChanges(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	var now atomic.Pointer[rules]
	now.Store(&rules{})
	s := start(t, dir, func() Policy { return now.Load() }, placement{}, "race")
	now.Store(&rules{closed: []string{".env"}})
	s.waitDenied(t, 1)
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	s.run(t, &got)
}

// ownPacks closes files of one name but those that are made inside.
type ownPacks struct {
	rules
	tree string

	// mu guards the field below.
	mu   sync.Mutex
	made map[uint64]bool // by their numbers
}

func (p *ownPacks) Access(rel string, dir bool) Access {
	if !strings.HasSuffix(rel, ".pack") {
		return Full
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(p.tree, rel), &st) == nil && p.made[st.Ino] {
		return Full
	}
	return None
}

func (p *ownPacks) Closed(rel string, dir bool) bool { return p.Access(rel, dir) == None }

func (p *ownPacks) Making(rel string) func(fd int) {
	return func(fd int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var st unix.Stat_t
		if strings.HasSuffix(rel, ".pack") && unix.Fstat(fd, &st) == nil {
			p.made[st.Ino] = true
		}
	}
}

func (p *ownPacks) ByFile(rel string) bool { return strings.HasSuffix(rel, ".pack") }

func (p *ownPacks) MayMake(rel string, dir bool) bool {
	_, err := os.Lstat(filepath.Join(p.tree, rel))
	return errors.Is(err, os.ErrNotExist)
}

func (p *ownPacks) Replaces() string { return "alternates" }

func (p *ownPacks) Instead(string) string { return "" }

// What is made inside stays open when a rename or a link gives it a name that is closed, and
// what comes from outside stays closed.
func TestNamesOfWhatIsMade(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	if err := os.WriteFile(filepath.Join(dir, "theirs.pack"), []byte("theirs"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := &ownPacks{tree: dir, made: map[uint64]bool{}}
	var r report
	start(t, dir, func() Policy { return p }, placement{}, "use", "names of what is made").run(t, &r)
	if !r.Leak {
		t.Errorf("ordinary work fails inside: %s", r.Said)
	}
}

// Helpers outside that listen in the project are not reached.
func TestOutsideSocket(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	l, err := net.Listen("unix", filepath.Join(dir, "helper"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_ = os.Chmod(filepath.Join(dir, "helper"), 0o777)
	said := make(chan string, 4)
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 16)
			n, _ := c.Read(b)
			said <- string(b[:n])
			_ = c.Close()
		}
	}()
	var r report
	start(t, dir, testPolicy(), placement{}, "use", "talking outside").run(t, &r)
	if r.Leak {
		t.Errorf("inside reached a listener outside: %s", r.Said)
	}
	select {
	case s := <-said:
		if s != "" {
			t.Errorf("the listener outside was told %q", s)
		}
	case <-time.After(10 * time.Second):
		t.Error("the listener was not even asked who it is: the attempt never came")
	}
}

// A directory is recognised by another mount of it.
func TestMountAlias(t *testing.T) {
	requireSupport(t)
	dir, out := stage(t)
	alias := filepath.Join(out, "alias")
	if err := os.Mkdir(alias, 0o777); err != nil {
		t.Fatal(err)
	}
	mount := func() error { return unix.Mount(dir, alias, "", unix.MS_BIND, "") }
	if err := mount(); err != nil {
		if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			t.Skip("only root can mount")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(alias, unix.MNT_DETACH) })
	var r report
	start(t, dir, testPolicy(), placement{}, "use", "reading an alias").run(t, &r)
	if r.Leak {
		t.Errorf("read by another mount: %s", r.Said)
	}
}

// What has moved with the project is still recognised, also where the user has no
// watch left that would tell.
func TestMovedTree(t *testing.T) {
	requireSupport(t)
	for name, make := range map[string]func(int) (int, error){
		"watched":  unix.InotifyInit1,
		"no watch": func(int) (int, error) { return -1, unix.EMFILE },
	} {
		t.Run(name, func(t *testing.T) {
			watches = make
			t.Cleanup(func() { watches = unix.InotifyInit1 }) // when the Guard has ended
			dir, out := stage(t)
			moved := filepath.Join(out, "moved")
			s := start(t, dir, testPolicy(), placement{}, "race")
			if err := os.Rename(dir, moved); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // reads go on meanwhile
			if err := os.WriteFile(filepath.Join(moved, "stop"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			var counts map[string]int
			s.run(t, &counts)
			if counts["leaks"] > 0 {
				t.Errorf("%v", counts)
			}
		})
	}
}

// awaitEnviron waits until a process that was just started shows its environment:
// the kernel fills it in after it has told the parent of the exec.
func awaitEnviron(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && len(b) > 0 {
			return
		}
	}
	t.Fatal("the victim shows no environment")
}

// The processes outside are not looked into.
func TestOtherProcesses(t *testing.T) {
	requireSupport(t)
	dir, _ := stage(t)
	t.Setenv("SECRET_OF_THE_HOST", secret)
	victim := exec.Command("/bin/sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	t.Setenv("VICTIM", fmt.Sprint(victim.Process.Pid))
	awaitEnviron(t, victim.Process.Pid)
	if r := perform(attack{"", spies()["environ"]}, dir); !r.Leak {
		t.Fatalf("the control reads nothing: %s", r.Said)
	}
	for _, name := range slices.Sorted(keys(spies())) {
		var r report
		s := start(t, dir, testPolicy(), placement{}, "spy", name)
		s.run(t, &r)
		if r.Leak {
			t.Errorf("%s: %s", name, r.Said)
		}
	}
}
