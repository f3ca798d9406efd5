package main

import (
	"os"
	"slices"
	"testing"

	"gander.dev/gander/sandbox/trials/sandboxtest/usertest"
)

// steps runs each line of a text in a shell of its own, and prints what it prints, without times, and
// its exit code.
const steps = `
	while IFS= read -r step; do
		test -n "$step" || continue
		out=$(timeout 300 bash -c "$step" 2>&1 < /dev/null); code=$?
		printf -- '-- %s\n%s\nexit %s\n' "$step" "$out" "$code" | sed -E 's/[0-9]+([.][0-9]+)? ?(ms|s|seconds?)\b/T/g; s/(duration_ms|Ran) [0-9.]+/\1 T/; s|/tmp/[^ ]*\.[A-Za-z0-9]{6,}|TMP|g; /A complete log of this run/d'
	done`

func newProject(name, setup, do string) use {
	return use{name, setup, "cat > ../steps <<'STEPS'\n" + do + "\nSTEPS\n" + steps + " < ../steps; rm -f ../steps"}
}

// everydayProjects work on projects of one language, in at least 30 steps each, of which some fail as
// they should.
var everydayProjects = []use{
	newProject("Node", `
		printf 'update-notifier=false\naudit=false\nfund=false\n' > ~/.npmrc; mkdir -p lib dep; printf '{"name":"dep","version":"1.2.3","main":"i.js"}' > dep/package.json; echo 'module.exports = n => n * 2' > dep/i.js
		printf '{"name":"p","version":"1.0.0","license":"MIT","scripts":{"test":"node --test --test-reporter=tap","build":"node build.js","fail":"exit 3"},"bin":{"hi":"hi.js"}}' > package.json
		printf '#!/usr/bin/env node\nconsole.log("hi", require("dep")(21))\n' > hi.js; chmod +x hi.js
		echo 'require("fs").mkdirSync("out",{recursive:true}); require("fs").writeFileSync("out/x", process.env.HOME === require("os").homedir() ? "home" : "other")' > build.js
		echo 'const t = require("node:test"), a = require("node:assert"); t("doubles", () => a.equal(require("dep")(2), 4))' > a.test.js`, `
node -p 6*7
node -e 'process.exit(4)'
npm --version > v && test -s v
npm pkg get name
npm pkg set version=1.0.1
npm pkg get version
npm install --offline ./dep
ls node_modules node_modules/dep
node hi.js
./hi.js
npm ls
npm test 2>&1 | grep -E '^# (tests|pass|fail)'
npm run build
cat out/x
npm run fail
npm run nosuch 2>&1 | grep -v log
npm exec --offline -c 'node hi.js'
mkdir new && cd new && npm init -y > /dev/null && git init -q && cat package.json && git status --short; cd .. && rm -rf new
npm ci --offline
npm ls --all --parseable | wc -l
npm pack --silent
tar tzf p-1.0.1.tgz
npm install --offline --silent --no-save ./p-1.0.1.tgz
node_modules/.bin/hi
npm uninstall --offline --silent dep
node hi.js 2>&1 | grep -c Cannot
npm config set save-exact true
npm config get save-exact
node -e 'const c=require("child_process"); console.log(c.execSync("echo child")+"", c.spawnSync("false").status)'
node -e 'new (require("worker_threads").Worker)("console.log(1)", {eval: true})'
node -e 'const s=require("net").createServer(c=>c.end("x")).listen(0,"127.0.0.1",()=>require("net").connect(s.address().port).on("data",d=>{console.log(d+"");s.close()}))'
node -e 'const f=require("fs"); f.writeFileSync("w","1"); const w=f.watch("w",()=>{console.log("changed");w.close()}); setTimeout(()=>f.writeFileSync("w","2"),50)'
node -e 'console.log(require("os").homedir() === process.env.HOME)'
printf 'console.log(7)' | node
node --check hi.js
echo 'import "node:fs"; console.log(await 8)' > m.mjs && node m.mjs
npm prefix | xargs basename
rm -rf node_modules out v package-lock.json *.tgz w m.mjs`),
	newProject("Python", `
		mkdir -p pkg tests; echo 'def twice(n): return n * 2' > pkg/__init__.py; echo 'import pkg, sys; print("main", pkg.twice(int(sys.argv[1])))' > pkg/__main__.py
		printf 'import unittest, pkg\nclass T(unittest.TestCase):\n    def test_twice(self): self.assertEqual(pkg.twice(2), 4)\n    @unittest.expectedFailure\n    def test_no(self): self.assertEqual(pkg.twice(2), 5)\n' > tests/test_pkg.py`, `
/usr/bin/python3 -c 'print(6*7)'
/usr/bin/python3 -c 'raise SystemExit(3)'
/usr/bin/python3 -c 1/0
/usr/bin/python3 -m pkg 21
/usr/bin/python3 -m pkg x 2>&1 | tail -1
/usr/bin/python3 -m unittest discover -s tests -t .
/usr/bin/python3 -m compileall -q pkg
/usr/bin/python3 -m py_compile nosuch.py
/usr/bin/python3 -m venv --without-pip v
v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'
. v/bin/activate && command -v python && python -m pkg 4
mkdir -p v/lib/python3/extra && cp -r pkg v/extra && PYTHONPATH=v/extra v/bin/python -c 'print(9)'
/usr/bin/python3 -m zipapp pkg -o p.pyz && /usr/bin/python3 p.pyz 5 2>&1 | tail -1
/usr/bin/python3 -m json.tool <<< '{"a": 1}'
/usr/bin/python3 -m timeit -n 1 -r 1 pass | cut -d' ' -f1-2
/usr/bin/python3 -m doctest pkg/__init__.py
/usr/bin/python3 -m tabnanny pkg
/usr/bin/python3 -m trace --count --missing -C cov --module pkg 2 | sed -n 1p
/usr/bin/python3 -m cProfile -m pkg 3 | grep ^main
/usr/bin/python3 -m ast <<< 'a = 1' | sed -n 1p
/usr/bin/python3 -c 'import os, pathlib; print(os.path.expanduser("~") == os.environ["HOME"], pathlib.Path.home() == pathlib.Path("~").expanduser())'
/usr/bin/python3 -c 'import subprocess; print(subprocess.run(["sh", "-c", "exit 5"]).returncode)'
/usr/bin/python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'
/usr/bin/python3 -c 'import threading; t = [threading.Thread(target=print, args=(1,)) for _ in range(3)]; [x.start() or x.join() for x in t]'
/usr/bin/python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b"x"); f.flush(); print(len(open(f.name).read()))'
/usr/bin/python3 -c 'import sqlite3; c = sqlite3.connect("d.db"); c.execute("create table t (a)"); c.execute("insert into t values (1)"); c.commit(); print(c.execute("select * from t").fetchall())'
/usr/bin/python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); s.accept()[0].send(b"x"); print(c.recv(1))'
/usr/bin/python3 -c 'import mmap; m = mmap.mmap(-1, 1 << 20); m[0] = 1; print(m[0])'
/usr/bin/python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=10); print(m.size >= 10); m.close(); m.unlink()'
/usr/bin/python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, 4)))'
/usr/bin/python3 -c 'import shutil, os; shutil.copytree("pkg", "q"); os.replace("q", "r"); print(sorted(os.listdir("r"))[-1]); shutil.rmtree("r")'
/usr/bin/python3 -c 'import os; os.symlink("pkg", "l"); print(os.readlink("l")); os.unlink("l"); os.mkfifo("f"); os.unlink("f")'
/usr/bin/python3 -c 'import fcntl; f = open("lock", "w"); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print("locked")'
rm -rf v p.pyz d.db lock cov; find . -name __pycache__ -prune -exec rm -r '{}' +`),
}

// everydayLongProjects are more of them, for soak, since compilers take long. Rust's are Debian's, in the layout of rustup.
var everydayLongProjects = []use{
	newProject("Go", `
		mkdir -p twice broken vetted; printf 'module example.org/p\n\ngo 1.21\n\nrequire example.org/dep v1.0.0\n\nreplace example.org/dep => ../dep\n' > go.mod
		mkdir ../dep; printf 'module example.org/dep\n\ngo 1.21\n' > ../dep/go.mod; printf 'package dep\n\nconst Two = 2\n' > ../dep/dep.go; mv ../dep .; sed -i 's,\.\./dep,./dep,' go.mod
		printf 'package main\n\nimport (\n\t"os"\n\t"strconv"\n\n\t"example.org/p/twice"\n)\n\n//go:generate echo generated\nfunc main() {\n\tn, err := strconv.Atoi(os.Args[1])\n\tif err != nil {\n\t\tpanic("no number")\n\t}\n\tprintln(twice.Of(n))\n}\n' > main.go
		printf '// Package twice doubles.\npackage twice\n\nimport "example.org/dep"\n\n// Of doubles n.\nfunc Of(n int) int { return n * dep.Two }\n' > twice/twice.go
		printf 'package twice\n\nimport "testing"\n\nfunc TestOf(t *testing.T) {\n\tif Of(2) != 4 {\n\t\tt.Fatal(Of(2))\n\t}\n}\n\nfunc BenchmarkOf(b *testing.B) {\n\tfor range b.N {\n\t\tOf(2)\n\t}\n}\n\nfunc FuzzOf(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, n int) { Of(n) })\n}\n' > twice/twice_test.go; sed -i 's/for range b.N/for i := 0; i < b.N; i++/' twice/twice_test.go
		printf '//go:build failing\n\npackage twice\n\nimport "testing"\n\nfunc TestFails(t *testing.T) { t.Error("as it should") }\n' > twice/fails_test.go
		printf 'package broken\n\nfunc f() int { return "x" }\n' > broken/broken.go; printf 'package vetted\n\nfunc F() { for { return; println() } }\n' > vetted/vetted.go`, `
go version
go env GOOS GOARCH GOMOD | wc -l
go env -w GOFLAGS=-mod=mod
go env GOFLAGS
go mod tidy
go mod verify
go mod graph
go list -m all
go list ./...
go list -f '{{.Name}} {{.Imports}}' ./twice
go build -o out/app .
./out/app 21
go run . 4
go run . x 2>&1 | head -1
go version -m out/app | sed -n '2,4p'
go build ./broken
go vet . ./twice
go vet ./vetted
go test ./twice
go test ./twice
go test -v -run TestOf ./twice
go test -tags failing ./twice
go test -json -run TestOf ./twice | grep -c '"pass"'
go test -run none -bench . -benchtime 1x ./twice | grep -c ^Benchmark
go test -run FuzzOf ./twice
go test -coverprofile c.out ./twice
go tool cover -func c.out
gofmt -l .
gofmt -d vetted
go fmt ./vetted
go generate .
go doc ./twice Of
go mod vendor && ls vendor/example.org/dep
go build -mod=vendor -o out/vendored . && out/vendored 3
rm -rf vendor && go work init . ./dep && go work edit -print && rm go.work
go install . && ~/go/bin/p 6
was=$(md5sum main.go); (sleep 0.1; echo '// changed' >> main.go) & for i in $(seq 600); do test "$was" = "$(md5sum main.go)" || break; sleep 0.05; done; go run . 5; tail -1 main.go
go list -m example.org/none
go build ./nosuch
go clean -testcache
rm -rf out c.out`),
	newProject("Rust", `
		tool .cargo/bin/rustup 'exec "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/debian/bin/${0##*/}" "$@"'; for t in cargo rustc rustdoc; do ln ~/.cargo/bin/rustup ~/.cargo/bin/$t; done
		mkdir -p ~/.rustup/toolchains; ln -s /usr ~/.rustup/toolchains/debian; path .cargo/bin
		mkdir -p src dep/src examples tests; printf '[package]\nname = "dep"\nversion = "0.1.0"\nedition = "2021"\n' > dep/Cargo.toml; echo 'pub const TWO: i32 = 2;' > dep/src/lib.rs
		printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\nlicense = "MIT"\ndescription = "p"\n\n[dependencies]\ndep = { path = "dep", version = "0.1.0" }\n' > Cargo.toml
		printf '/// Doubles.\n///\n/// assert_eq!(p::twice(2), 4);\npub fn twice(n: i32) -> i32 { n * dep::TWO }\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn doubles() { assert_eq!(super::twice(2), 4); }\n    #[test]\n    #[ignore]\n    fn fails() { assert_eq!(super::twice(2), 5); }\n}\n' > src/lib.rs
		echo 'fn main() { println!("{}", p::twice(std::env::args().nth(1).expect("a number").parse().unwrap())); }' > src/main.rs; cp src/main.rs examples/ex.rs; printf '#[test]\nfn whole() { assert_eq!(p::twice(4), 8); }\n' > tests/whole.rs`, `
command -v cargo
cargo --version
rustc --version
rustc --print sysroot
cargo generate-lockfile
cargo metadata --format-version 1 --no-deps | grep -o '"name":"p"' | head -1
cargo tree --charset ascii
cargo check 2>&1 | head -1
cargo build
cargo build
target/debug/p 21
cargo run -q -- 4
cargo run -q 2>&1 | grep -c 'a number'
cargo test -q --lib 2>&1 | grep '^test result' | cut -d';' -f1-3
cargo test -q --test whole 2>&1 | grep -c ok
cargo test -q --lib -- --ignored 2>&1 | grep -E '^(test result|  left)' | cut -d';' -f1
cargo test -q --lib -- --list
cargo test -q --doc 2>&1 | grep -c running
cargo run -q --example ex -- 5
cargo build -q --release && target/release/p 6
cargo rustc -q --lib -- --emit=metadata
cargo doc -q --no-deps && test -s target/doc/p/index.html
cargo package --offline --allow-dirty --no-verify --list
cargo package --offline --allow-dirty --no-verify 2>&1 | tail -1
CARGO_TARGET_DIR=out cargo build -q && out/debug/p 7
cargo new -q --vcs none sub && ls sub
cargo new -q ../p/new && git -C new status --short && cargo run -q --manifest-path new/Cargo.toml; rm -rf new
cargo build -q --manifest-path sub/Cargo.toml 2>&1 | head -2
rustc --crate-type lib --emit metadata -o x.rmeta dep/src/lib.rs && test -s x.rmeta
echo 'fn f() -> i32 { "x" }' > bad.rs; rustc --crate-type lib bad.rs 2>&1 | head -2
echo 'fn main() { println!("{}", std::env::var("HOME").is_ok()) }' > home.rs && rustc home.rs && ./home
echo 'fn main() { let t: Vec<_> = (0..4).map(|i| std::thread::spawn(move || i)).collect(); println!("{}", t.into_iter().map(|t| t.join().unwrap()).sum::<i32>()) }' > threads.rs && rustc threads.rs && ./threads
was=$(md5sum src/lib.rs); (sleep 0.1; echo '// changed' >> src/lib.rs) & for i in $(seq 600); do test "$was" = "$(md5sum src/lib.rs)" || break; sleep 0.05; done; cargo run -q -- 8
cargo install -q --offline --path . --root inst 2>&1 | grep -c PATH; inst/bin/p 9
cargo add nosuch --offline 2>&1 | tail -1
PATH=~/.cargo/bin:/usr/bin:/bin cargo fmt 2>&1 | head -1
PATH=~/.cargo/bin:/usr/bin:/bin cargo clippy 2>&1 | head -1
cargo clean; ls
rm -rf out sub inst home threads x.rmeta`),
	// The JDK is Debian's, as "sdk install java 17-local DIR" has one: by a link.
	newProject("Java", `
		mkdir -p ~/.sdkman/candidates/java; ln -s /usr/lib/jvm/default-java ~/.sdkman/candidates/java/17-local; ln -s 17-local ~/.sdkman/candidates/java/current; path .sdkman/candidates/java/current/bin
		mkdir -p src/p test/p bad; printf 'module p {\n    requires java.net.http;\n    exports p;\n}\n' > src/module-info.java
		printf 'package p;\n\n/** Doubles. */\npublic class Twice {\n    /** Doubles n. @param n a number @return twice that */\n    public static int of(int n) { return n * 2; }\n    /** Not made. */\n    private Twice() {}\n}\n' > src/p/Twice.java
		printf 'package p;\n\n/** Starts. */\npublic class Main {\n    /** Doubles a number. @param args the number */\n    public static void main(String[] args) { System.out.println(Twice.of(Integer.parseInt(args[0]))); }\n    /** Not made. */\n    private Main() {}\n}\n' > src/p/Main.java
		printf 'package p;\n\nimport static org.junit.Assert.assertEquals;\nimport org.junit.*;\n\npublic class TwiceTest {\n    @Test public void doubles() { assertEquals(4, Twice.of(2)); }\n    @Ignore @Test public void fails() { assertEquals(5, Twice.of(2)); }\n}\n' > test/p/TwiceTest.java
		printf 'class Bad { int f() { return "x"; } }\n' > bad/Bad.java; printf 'import java.util.*;\n\nclass Raw { List f() { return new ArrayList(); } }\n' > bad/Raw.java
		printf '<project default="test">\n  <target name="build"><mkdir dir="ant"/><javac srcdir="src" excludes="module-info.java" sourcepath="" destdir="ant" includeantruntime="false"/></target>\n  <target name="test" depends="build">\n    <javac srcdir="test" destdir="ant" includeantruntime="false" classpath="ant:/usr/share/java/junit4.jar"/>\n    <junit haltonfailure="true" fork="true"><classpath path="ant:/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar"/><formatter type="brief" usefile="false"/><test name="p.TwiceTest"/></junit>\n  </target>\n  <target name="broken"><fail message="as it should"/></target>\n</project>\n' > build.xml`, `
command -v java javac jar
java -version
javac -version
java -XshowSettings:properties -version 2>&1 | grep -E '^ +(user.name|java.io.tmpdir) ='
javac -d out $(find src -name '*.java')
java -cp out p.Main 21
java -cp out p.Main x 2>&1 | head -1
java -p out -m p/p.Main 4
java src/p/Twice.java
javac -d out bad/Bad.java
javac -Xlint:all -Werror -d out bad/Raw.java
javac -d tests -cp out:/usr/share/java/junit4.jar test/p/TwiceTest.java
java -cp out:tests:/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar org.junit.runner.JUnitCore p.TwiceTest | grep '^OK'
jar --create --file p.jar --main-class p.Main -C out .
jar tf p.jar
java -jar p.jar 5
jar --describe-module --file p.jar | sed 's/ .*//'
jdeps -s p.jar
jlink --module-path p.jar --add-modules p --output image --launcher p=p/p.Main && image/bin/p 6
image/bin/java --list-modules | sed 's/@.*//'
javap -cp out p.Twice
javadoc -quiet -d doc -sourcepath src -subpackages p && test -s doc/index.html
printf 'System.out.println(6*7)\n/exit\n' | jshell -s - 2>&1 | tail -1
keytool -genkeypair -keystore k -storepass secret -keyalg EC -dname CN=x -alias a && keytool -list -keystore k -storepass secret | grep -c PrivateKeyEntry
jarsigner -keystore k -storepass secret p.jar a | head -1 && jarsigner -verify p.jar | grep verified
ant -q build && java -cp ant p.Main 7
ant -q 2>&1 | grep -E '(Tests run|BUILD)' | sed 's/, Time.*//'
ant -q broken 2>&1 | grep -E 'FAILED|should'
echo 'class H { public static void main(String[] a) throws Exception { var s = com.sun.net.httpserver.HttpServer.create(new java.net.InetSocketAddress("127.0.0.1", 0), 0); s.createContext("/", x -> { x.sendResponseHeaders(200, 2); x.getResponseBody().write("ok".getBytes()); x.close(); }); s.start(); System.out.println(java.net.http.HttpClient.newHttpClient().send(java.net.http.HttpRequest.newBuilder(java.net.URI.create("http://127.0.0.1:" + s.getAddress().getPort())).build(), java.net.http.HttpResponse.BodyHandlers.ofString()).body()); s.stop(0); } }' > H.java && java H.java
echo 'class C { public static void main(String[] a) throws Exception { System.out.println(new ProcessBuilder("sh", "-c", "exit 5").start().waitFor()); System.out.println(java.net.InetAddress.getLocalHost().isLoopbackAddress() || true); } }' > C.java && java C.java
echo 'class T { public static void main(String[] a) throws Exception { var p = java.util.concurrent.Executors.newFixedThreadPool(200); var n = new java.util.concurrent.atomic.AtomicInteger(); for (int i = 0; i < 2000; i++) p.submit(n::incrementAndGet); p.shutdown(); p.awaitTermination(60, java.util.concurrent.TimeUnit.SECONDS); System.out.println(n); } }' > T.java && java T.java
echo 'class M { public static void main(String[] a) { var l = new java.util.ArrayList<byte[]>(); while (true) l.add(new byte[1 << 20]); } }' > M.java && java -Xmx32m M.java 2>&1 | head -1
java -Xms1g -Xmx4g T.java
was=$(md5sum src/p/Twice.java); (sleep 0.1; echo '// changed' >> src/p/Twice.java) & for i in $(seq 600); do test "$was" = "$(md5sum src/p/Twice.java)" || break; sleep 0.05; done; javac -d out src/p/Twice.java && java -cp out p.Main 8
echo 'import java.nio.file.*; class W { public static void main(String[] a) throws Exception { var s = FileSystems.getDefault().newWatchService(); Path.of(".").register(s, StandardWatchEventKinds.ENTRY_CREATE); Files.writeString(Path.of("w"), "x"); System.out.println(s.take().pollEvents().get(0).context()); } }' > W.java && java W.java
java -cp out p.None 2>&1 | head -1
java --limit-modules java.base -cp out p.Main 9
rm -rf out tests ant image doc p.jar k w [HCTMW].java`),
}

func TestEverydayProjects(t *testing.T) {
	usertest.Run(t, usertest.Options{Tests: "^TestEverydayProjectsInside$"})
}

func TestEverydayProjectsInside(t *testing.T) {
	all := everydayProjects
	if os.Getenv("GANDER_EVERYWHERE") != "" {
		all = slices.Concat(all, everydayLongProjects)
	}
	compareEveryday(t, all)
}
