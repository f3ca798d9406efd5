//go:build unix

package toolsettings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// home makes a home with files.
func home(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func find(home string, env map[string]string, writable ...string) Found {
	return Find(Options{Writable: writable, Variable: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}})
}

func TestFind(t *testing.T) {
	const npmrc = "registry=https://npm.example.org/\n@a:registry = https://npm.example.org/a/\n; a comment\n//npm.example.org/:_authToken=npm_x\n//npm.example.org:8443/:_password=cHc=\n_auth=eDp5\nsave-exact=true\nproxy=http://p\ninit-license=${LICENSE}\nscript-shell=/bin/x\nomit[]=dev\n"
	const pip = "[global]\nindex-url = https://me:word@pypi.example.org/simple\nextra-index-url =\n    https://a.example.org/simple\n    https://b.example.org/simple\nfind-links = https://c.example.org/AbCd1234efGH5678/simple\nclient-cert: /home/me/key.pem=x\ntimeout = 5\n[install]\nno-binary = :all:\n"
	dir := home(t, map[string]string{
		".npmrc": npmrc, ".config/pip/pip.conf": pip, ".config/go/env": "GOPRIVATE=git.example.org\nGOAUTH=netrc\nGOPROXY=https://x:y@proxy.example.org\nGOFLAGS=-mod=mod\n",
		".editorconfig": "root = true\n[*]\nindent_style = tab\n", ".ripgreprc": "--smart-case\n", ".inputrc": "# token: abc\n", ".config/bat/config": "--theme=1\x00\n",
	})
	got := find(dir, map[string]string{"RIPGREP_CONFIG_PATH": dir + "/.ripgreprc"})
	for name, want := range map[string]string{
		".npmrc":               "registry=https://npm.example.org/\n@a:registry = https://npm.example.org/a/\nsave-exact=true\nomit[]=dev\n",
		".config/pip/pip.conf": "[global]\nextra-index-url =\n    https://a.example.org/simple\n    https://b.example.org/simple\ntimeout = 5\n[install]\nno-binary = :all:\n",
		".config/go/env":       "GOPRIVATE=git.example.org\nGOFLAGS=-mod=mod\n",
	} {
		if text := string(got.Home[name]); text != want {
			t.Errorf("%s inside:\n%s\nwant:\n%s", name, text, want)
		}
	}
	if len(got.Home) != 3 || len(got.Own) != 2 || string(got.Own[dir+"/.editorconfig"]) == "" || !slices.Equal(got.Env, []string{"RIPGREP_CONFIG_PATH=" + dir + "/.ripgreprc"}) {
		t.Errorf("inside are %q and %q, variables %v", got.Home, got.Own, got.Env)
	}
	var said []string
	for _, f := range got.Files {
		said = append(said, f.Tool+": "+strings.Join(f.Left, " ")+f.Why)
	}
	want := []string{
		"editorconfig: ", "ripgrep: ", "bat: it is not text", "readline: " + errSecret.Error(),
		"pip: index-url find-links client-cert", "npm: //npm.example.org/ //npm.example.org _auth proxy init-license script-shell", "go: GOAUTH GOPROXY",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said:\n%s\nwant:\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
}

// TestWritable has a sandbox put settings where gander would read them, and leads gander elsewhere.
func TestWritable(t *testing.T) {
	dir := home(t, map[string]string{"p/npmrc": "registry=https://evil.example\n", "secret": "x\n"})
	for name, target := range map[string]string{".npmrc": "p/npmrc", ".inputrc": "p/link"} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "p/link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".editorconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := find(dir, map[string]string{"RIPGREP_CONFIG_PATH": dir + "/p/npmrc", "PIP_CONFIG_FILE": dir + "/p/npmrc"}, filepath.Join(dir, "p"))
	if len(got.Home)+len(got.Own)+len(got.Env) > 0 {
		t.Errorf("inside are %q, %q and %v", got.Home, got.Own, got.Env)
	}
	for _, f := range got.Files {
		if f.Why == "" {
			t.Errorf("of %s nothing is said", f.Path)
		}
	}
	if n := len(got.Files); n != 5 {
		t.Errorf("%d files are said of, want 5: %v", n, got.Files)
	}
}

// TestForms reads the settings of tools that have a form of their own each.
func TestForms(t *testing.T) {
	const aws = "AKIAABCDEFGH1234IJKL"
	for _, tt := range []struct{ file, text, want, left string }{
		{
			".cargo/config.toml", "[registries.mine]\nindex = \"sparse+https://crates.example.org/\"\ntoken = \"x\"\n[build]\nrustc-wrapper = \"/home/me/w\"\nrustflags = [\n  \"-C\", \"debuginfo=1\",\n]\n[source.crates-io]\nreplace-with = \"mine\"\n",
			"[registries.mine]\nindex = \"sparse+https://crates.example.org/\"\n[build]\nrustflags = [\n  \"-C\", \"debuginfo=1\",\n]\n[source.crates-io]\nreplace-with = \"mine\"\n", "token rustc-wrapper",
		},
		{
			".config/uv/uv.toml", "offline = true\n[[index]]\nurl = \"https://pypi.example.org/simple\"\ndefault = true\n[[index]]\nurl = \"https://me:word@pypi.example.org/simple\"\n",
			"offline = true\n[[index]]\nurl = \"https://pypi.example.org/simple\"\ndefault = true\n[[index]]\n", "url",
		},
		{
			".bundle/config", "---\nBUNDLE_JOBS: \"4\"\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://gems.example.org/\"\nBUNDLE_GEMS__EXAMPLE__ORG: \"me:word\"\n",
			"BUNDLE_JOBS: \"4\"\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://gems.example.org/\"\n", "BUNDLE_GEMS__EXAMPLE__ORG",
		},
		{".gemrc", ":sources:\n- https://gems.example.org/\n:rubygems_api_key: x\ngem: --no-document\n", ":sources:\n- https://gems.example.org/\ngem: --no-document\n", ":rubygems_api_key"},
		{".yarnrc", "registry \"https://npm.example.org/\"\n\"//npm.example.org/:_authToken\" \"x\"\n", "registry \"https://npm.example.org/\"\n", `"//npm.example.org/`},
		{
			".yarnrc.yml", "nodeLinker: node-modules\nnpmScopes:\n  mine:\n    npmRegistryServer: \"https://npm.example.org\"\n    npmAuthToken: x\nnpmAuthToken: y\n", "nodeLinker: node-modules\n", "npmScopes npmAuthToken",
		},
		{".gradle/gradle.properties", "org.gradle.parallel=true\nmavenPassword=x\nsystemProp.http.proxyPassword=y\norg.gradle.jvmargs=-Xmx1g -Dkey=" + aws + "\n", "org.gradle.parallel=true\n", "mavenPassword systemProp.http.proxyPassword org.gradle.jvmargs"},
		{
			".m2/settings.xml", "<?xml version=\"1.0\"?>\n<settings xmlns=\"http://maven.apache.org/SETTINGS/1.0.0\">\n<!-- pass -->\n<mirrors><mirror><id>m</id><!-- pass --><url>https://maven.example.org/</url><mirrorOf>*</mirrorOf></mirror></mirrors>\n<servers><server><id>m</id><password>pass</password></server></servers><offline/></settings>\n",
			"<settings xmlns=\"http://maven.apache.org/SETTINGS/1.0.0\">\n<mirrors><mirror><id>m</id><url>https://maven.example.org/</url><mirrorOf>*</mirrorOf></mirror></mirrors>\n<offline/>\n</settings>\n", "servers",
		},
		{".m2/settings.xml", "<settings><mirrors><mirror><url>https://me:word@maven.example.org/</url></mirror></mirrors></settings>", "<settings>\n</settings>\n", "mirrors"},
	} {
		got := find(home(t, map[string]string{tt.file: tt.text}), nil)
		if len(got.Files) != 1 || string(got.Home[tt.file]) != tt.want || strings.Join(got.Files[0].Left, " ") != tt.left {
			t.Errorf("of %s are inside:\n%s\nwant:\n%s\nsaid: %+v, want %q left out", tt.file, got.Home[tt.file], tt.want, got.Files, tt.left)
		}
	}
	if got := find(home(t, map[string]string{".m2/settings.xml": "token"}), nil); len(got.Home) > 0 || len(got.Files) != 1 {
		t.Errorf("what is not XML is inside: %q, and is said %+v", got.Home, got.Files)
	}
}
