package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gander.dev/gander/conformance/sitetest"
)

// skillRepository has two skills, one of them with a link, a filter, a submodule and a hook.
const skillRepository = `
git init -q -b main w && cd w && mkdir tidy links
printf -- '---\nname: tidy\ndescription: How this team tidies.\n---\nRun sh tidy.sh.\n' > tidy/SKILL.md
echo 'echo tidied' > tidy/tidy.sh && chmod 755 tidy/tidy.sh
printf -- '---\nname: links\ndescription: Leads out.\n---\n' > links/SKILL.md && ln -s /etc/passwd links/more
echo '*.sh filter=evil export-subst' > tidy/.gitattributes
printf '[submodule "s"]\n\tpath = s\n\turl = https://submodule.example/s.git\n' > .gitmodules
git add -A && git update-index --add --cacheinfo 160000,0123456789012345678901234567890123456789,s && git commit -qm one
git rev-parse HEAD > ../commit && echo later >> tidy/SKILL.md && git commit -qam two && cd ..
git clone -q --bare w skills.git && touch skills.git/git-daemon-export-ok`

// TestSkillsOfRepositories installs skills of a repository at a commit that is not its newest, by
// https in a sandbox and by the person's ssh. Neither filters nor links nor branches come in.
func TestSkillsOfRepositories(t *testing.T) {
	repos, bin, gander := t.TempDir(), t.TempDir(), asGander(t)
	make := exec.CommandContext(t.Context(), "sh", "-ec", skillRepository)
	make.Dir = repos
	make.Env = append(os.Environ(), "HOME="+repos, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(repos, "commit"))
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(text))
	config, authority := sitetest.Certified(t, "127.0.0.1")
	site := httptest.NewUnstartedServer(sitetest.GitIn(t, repos))
	site.TLS = config
	site.StartTLS()
	t.Cleanup(site.Close)
	writeIn(t, bin, "authority.pem", string(authority))
	writeIn(t, bin, ".gitconfig", "[filter \"evil\"]\n\tsmudge = sed s/tidied/bought/\n\trequired = true\n")
	// ssh runs what it is told to run there, as a server does.
	writeIn(t, bin, "ssh", "#!/bin/sh\necho \"$@\" > "+bin+"/said\nfor last; do :; done\ncd "+repos+" && exec sh -c \"$last\"\n")
	if err := os.Chmod(filepath.Join(bin, "ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(home string, args ...string) (string, string, error) {
		var out, said bytes.Buffer
		cmd := exec.CommandContext(t.Context(), gander, append([]string{"--home", home, "--log-level", "error", "skill"}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = repos, &out, &said
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GIT_SSL_CAINFO="+bin+"/authority.pem", "HOME="+bin)
		err := cmd.Run()
		return out.String(), said.String(), err
	}
	for name, base := range map[string]string{
		"https": site.URL + "/skills.git", "ssh": "ssh://git@host.example:2222" + repos + "/skills.git", "ssh as it writes it": "git@host.example:skills.git",
	} {
		t.Run(name, func(t *testing.T) {
			home, source := t.TempDir(), base+"#"+commit+":tidy"
			if out, said, err := run(home, "install", source); err != nil || out != "installed tidy for all agents, from their next session on\n" || said != "" {
				t.Fatalf("%v: %s%s", err, out, said)
			}
			for file, want := range map[string]string{"SKILL.md": "Run sh tidy.sh.\n", "tidy.sh": "echo tidied\n"} {
				got, err := os.ReadFile(filepath.Join(home, "skills", "tidy", file))
				if err != nil || !strings.HasSuffix(string(got), want) {
					t.Errorf("%s is %q, %v", file, got, err)
				}
			}
			out, _, err := run(home, "info", "tidy", "--json")
			var info struct {
				Origin struct{ Source, SHA256 string }
			}
			if err := json.Unmarshal([]byte(out), &info); err != nil {
				t.Fatal(err)
			}
			if err != nil || !strings.HasSuffix(info.Origin.Source, "skills.git#"+commit+":tidy") || len(info.Origin.SHA256) != 64 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for version, why := range map[string]string{
		commit + ":links": `"more" is a link`, commit: `"links/more" is a link`, commit + ":gone": "git failed", strings.Repeat("0", 40): "git failed",
	} {
		if _, said, err := run(t.TempDir(), "install", site.URL+"/skills.git#"+version); err == nil || !strings.Contains(said, why) {
			t.Errorf("%s: %v: %s, want %s", version, err, said, why)
		}
	}
	if said, err := os.ReadFile(filepath.Join(bin, "said")); err != nil || !strings.HasPrefix(string(said), "-T -oBatchMode=yes -") {
		t.Errorf("ssh was called with %q, %v", said, err)
	}
	for source, why := range map[string]string{
		site.URL + "/skills.git":                        "name the commit in full",
		site.URL + "/skills.git#main":                   "name the commit in full",
		"http://127.0.0.1/skills.git#" + commit:         "https and ssh URLs",
		"file://" + repos + "/skills.git#" + commit:     "https and ssh URLs",
		"https://a:secret@host.example/s.git#" + commit: "keeps no password",
		"ssh://-oProxyCommand=x/s.git#" + commit:        "a URL of a repository has a host and a path",
		"https://host.example/#" + commit:               "a URL of a repository has a host and a path",
	} {
		if _, said, err := run(t.TempDir(), "install", source); err == nil || !strings.Contains(said, why) || strings.Contains(said, "secret") {
			t.Errorf("%s: %v: %s, want %s", source, err, said, why)
		}
	}
}
