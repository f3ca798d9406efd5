package toolchains

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// person makes a home with files and links ("name -> target"), and returns Find's options.
func person(t *testing.T, env map[string]string, files ...string) (home string, o Options) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, target, isLink := strings.Cut(file, " -> ")
		path := filepath.Join(home, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "~", home), path)
		default:
			err = os.WriteFile(path, nil, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return home, Options{Variable: func(name string) string {
		if name == "HOME" {
			return home
		}
		return strings.ReplaceAll(env[name], "~", home)
	}}
}

// say says what was found, with ~ for the home.
func say(home string, f Found) string {
	var words []string
	for _, p := range f.Places {
		words = append(words, p.Path)
	}
	slices.Sort(words)
	text := strings.Join(slices.Concat(words, f.Env), " ")
	if len(f.Unshown) > 0 {
		text += " unshown: " + strings.Join(f.Unshown, " ")
	}
	return strings.ReplaceAll(text, home, "~")
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
		env   map[string]string
		want  string
	}{
		{"nothing", nil, nil, ""},
		{
			"rustup and its credentials",
			[]string{".cargo/bin/cargo", ".cargo/credentials.toml", ".cargo/config.toml", ".rustup/toolchains/stable/bin/cargo", ".rustup/settings.toml", ".rustup/tmp/x"},
			nil,
			"~/.cargo/bin ~/.rustup/settings.toml ~/.rustup/tmp ~/.rustup/toolchains RUSTUP_HOME=~/.rustup",
		},
		{"a tool elsewhere, by its variable", []string{"rust/toolchains/x"}, map[string]string{"RUSTUP_HOME": "~/rust"}, "~/rust/toolchains RUSTUP_HOME=~/rust"},
		{
			"a link to another row's place",
			[]string{".local/share/fnm/node-versions/v20/installation/bin/node", ".local/state/fnm_multishells/1 -> ~/.local/share/fnm/node-versions/v20/installation"},
			map[string]string{"PATH": "~/.local/state/fnm_multishells/1/bin"},
			"~/.local/share/fnm/node-versions FNM_DIR=~/.local/share/fnm",
		},
		{"a link to anything else", []string{".ssh/id", ".nvm/versions -> ~/.ssh", ".pyenv/bin/pyenv", ".pyenv/versions -> /"}, nil, "~/.pyenv/bin PYENV_ROOT=~/.pyenv"},
		{"a root that is a link", []string{"secret/bin/x", ".deno -> ~/secret"}, nil, ""},
		{"a variable that names the home, or above it", []string{"bin/x", "lib/x"}, map[string]string{"N_PREFIX": "~", "NPM_CONFIG_PREFIX": "/", "GOPATH": "~/../x/.."}, ""},
		{"a variable that names a directory with other things", []string{"docs/x", "docs/bin/x"}, map[string]string{"UV_PYTHON_INSTALL_DIR": "~/docs", "GOROOT": "~/docs"}, ""},
		{"only a distribution is taken for Go", []string{"go/bin/x", "go/src/mine/x"}, nil, "~/go/bin"},
		{"Go below the home", []string{"sdk/go1.26/bin/go", "sdk/go1.26/VERSION", "sdk/go1.26/src/x"}, nil, "~/sdk/go1.26/VERSION ~/sdk/go1.26/bin ~/sdk/go1.26/src"},
		{
			"Java behind a link of its manager",
			[]string{".sdkman/candidates/java/21/bin/java", ".sdkman/candidates/java/21/release", ".sdkman/candidates/java/current -> ~/.sdkman/candidates/java/21", ".sdkman/etc/config"},
			map[string]string{"JAVA_HOME": "~/.sdkman/candidates/java/current"},
			"~/.sdkman/candidates SDKMAN_DIR=~/.sdkman JAVA_HOME=~/.sdkman/candidates/java/current",
		},
		{"directories of PATH that no row covers", []string{"tools/bin/x", ".cargo/bin/x", ".tools -> ~/tools/bin"}, map[string]string{"PATH": "~/tools/bin:~/.cargo/bin:~/gone:/usr/bin:~/tools/bin:~/.tools"}, "~/.cargo/bin unshown: ~/tools/bin ~/.tools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, o := person(t, tt.env, tt.files...)
			if got := say(home, Find(o)); got != tt.want {
				t.Errorf("found %s\nwant  %s", got, tt.want)
			}
		})
	}
}

func TestWritableToolchains(t *testing.T) {
	for _, writable := range []string{".cargo", ".cargo/bin", ".cargo/bin/project", "."} {
		home, o := person(t, nil, ".cargo/bin/project/x", ".deno/bin/deno")
		o.Writable = []string{filepath.Join(home, writable)}
		want := "~/.deno/bin"
		if writable == "." {
			want = ""
		}
		if got := say(home, Find(o)); got != want {
			t.Errorf("where a sandbox can write %s: found %q, want %q", writable, got, want)
		}
	}
}

func TestNamesOfPath(t *testing.T) {
	home, o := person(t, nil, ".pyenv/versions/3.12/bin/python", ".venvs/x -> ~/.pyenv/versions/3.12", ".pyenv/versions/mine -> ~/.pyenv/versions/3.12", ".pyenv/versions/out -> ~/other", "other/bin/x", ".sdkman/candidates/java/local -> /usr")
	f := Find(o)
	for dir, want := range map[string]string{
		".pyenv/versions/3.12/bin": ".pyenv/versions/3.12/bin", ".pyenv/versions/mine/bin": ".pyenv/versions/mine/bin",
		".venvs/x/bin": ".pyenv/versions/3.12/bin", ".sdkman/candidates/java/local/bin": ".sdkman/candidates/java/local/bin", ".pyenv/versions/out/bin": "", "other/bin": "", "gone": "",
	} {
		got, ok := f.Shows(filepath.Join(home, dir))
		if ok != (want != "") || ok && got != filepath.Join(home, want) {
			t.Errorf("%s is %s (%v) inside, want %s", dir, got, ok, want)
		}
	}
}
