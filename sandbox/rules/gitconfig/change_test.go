package gitconfig

import (
	"strings"
	"testing"
)

// before is the configuration of a repository that a person has.
const before = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\teditor = \"vi # mine\" ; yes\n[remote \"origin\"]\n\turl = ../up\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\tvscode-merge-base = origin/main\n"

// relative is such a configuration with an address that others can be relative to.
const relative = "[remote \"origin\"]\n\turl = https://e.org/a.git\n"

func TestAccept(t *testing.T) {
	remote := func(url string) string { return before + "[remote \"x\"]\n\turl = " + url + "\n" }
	for name, tt := range map[string]struct {
		c    Change
		fail string // empty: it is taken
	}{
		"an upstream":                         {Change{New: []byte(before + "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n\trebase = true\n\tdescription = \"a\\nb\"\n")}, ""},
		"an upstream here":                    {Change{New: []byte(before + "[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n")}, ""},
		"a branch that goes":                  {Change{New: []byte(before[:strings.Index(before, "[branch")])}, ""},
		"another upstream, added inside":      {Change{New: []byte(strings.Replace(before, "remote = origin", "remote = x", 1) + "[remote \"x\"]\n\turl = https://e.org/x\n")}, "branch.main.remote"},
		"an upstream that is an address":      {Change{New: []byte(strings.Replace(before, "remote = origin", "remote = https://e.org/x", 1))}, "branch.main.remote"},
		"a branch's push remote":              {Change{New: []byte(before + "[branch \"main\"]\n\tpushRemote = origin\n")}, "branch.main.pushremote"},
		"a branch's merge options":            {Change{New: []byte(before + "[branch \"main\"]\n\tmergeOptions = -s evil\n")}, "branch.main.mergeoptions"},
		"a branch's rebase by a value":        {Change{New: []byte(before + "[branch \"main\"]\n\trebase = x\n")}, "branch.main.rebase"},
		"a remote by https":                   {Change{New: []byte(remote("https://git.example:8443/a/b.git") + "\tfetch = +refs/heads/*:refs/remotes/x/*\n")}, ""},
		"a remote by ssh":                     {Change{New: []byte(remote("ssh://git@git.example/a"))}, ""},
		"a remote by git":                     {Change{New: []byte(remote("git://[2001:db8:1:2:3:4:5:6]/a"))}, ""},
		"a remote as ssh has it":              {Change{New: []byte(remote("git@git.example:a/b.git"))}, ""},
		"a remote by http":                    {Change{New: []byte(remote("http://git.example/a"))}, "address"},
		"a remote that runs":                  {Change{New: []byte(remote("ext::sh -c x"))}, "address"},
		"a remote that is a path":             {Change{New: []byte(remote("../evil"))}, "address"},
		"a remote that is a file":             {Change{New: []byte(remote("file:///evil"))}, "address"},
		"a remote without a host":             {Change{New: []byte(remote("https:///evil"))}, "address"},
		"a remote with an option as its host": {Change{New: []byte(remote("ssh://-oProxyCommand=x/y"))}, "address"},
		"a remote with an option as its user": {Change{New: []byte(remote("ssh://-oProxyCommand=x@h/y"))}, "address"},
		"a remote with an option, as ssh":     {Change{New: []byte(remote("-oProxyCommand=x:y"))}, "address"},
		"a remote with another fetch":         {Change{New: []byte(remote("https://e.org/x") + "\tfetch = +refs/*:refs/*\n")}, "remote.x.fetch"},
		"a remote's fetch to another":         {Change{New: []byte(remote("https://e.org/x") + "\tfetch = +refs/heads/*:refs/remotes/origin/*\n")}, "remote.x.fetch"},
		"a new remote, renamed":               {Change{Old: []byte(strings.ReplaceAll(remote("https://e.org/x"), "x\"]", "y\"]")), New: []byte(remote("https://e.org/x") + "\tfetch = +refs/heads/*:refs/remotes/y/*\n"), Added: map[string]bool{"y": true}}, ""},
		"a clone of one branch":               {Change{Made: true, New: []byte("[remote \"o\"]\n\turl = https://e.org/x\n\tfetch = +refs/heads/a/b:refs/remotes/o/a/b\n")}, ""},
		"a clone of one branch to another":    {Change{Made: true, New: []byte("[remote \"o\"]\n\turl = https://e.org/x\n\tfetch = +refs/heads/a:refs/remotes/o/b\n")}, "remote.o.fetch"},
		"a remote's other programs":           {Change{New: []byte(remote("https://e.org/x") + "\tuploadpack = evil\n")}, "remote.x.uploadpack"},
		"a remote's helper":                   {Change{New: []byte(remote("https://e.org/x") + "\tvcs = evil\n")}, "remote.x.vcs"},
		"another address of a remote":         {Change{New: []byte(strings.Replace(before, "../up", "https://e.org/x", 1))}, "that was there before"},
		"a second address of a remote":        {Change{New: []byte(strings.Replace(before, "url = ../up", "url = ../up\n\turl = https://e.org/x", 1))}, "that was there before"},
		"another address to push to":          {Change{New: []byte(strings.Replace(before, "url = ../up", "url = ../up\n\tpushurl = https://e.org/x", 1))}, "that was there before"},
		"a remote that goes":                  {Change{New: []byte(strings.Replace(before, "\turl = ../up\n", "", 1))}, "takes away"},
		"a remote of one's own, that goes":    {Change{Old: []byte(remote("https://e.org/x")), New: []byte(before), Added: map[string]bool{"x": true}}, ""},
		"a submodule":                         {Change{New: []byte(before + "[submodule \"s\"]\n\tactive = true\n\turl = https://e.org/s\n"), Modules: []byte("[submodule \"s\"]\n\tpath = s\n\turl = https://e.org/s\n")}, ""},
		"a submodule of another address":      {Change{New: []byte(before + "[submodule \"s\"]\n\turl = https://e.org/s\n"), Modules: []byte("[submodule \"s\"]\n\turl = https://e.org/t\n")}, "submodule.s.url"},
		"a submodule that runs":               {Change{New: []byte(before + "[submodule \"s\"]\n\turl = ext::sh\n"), Modules: []byte("[submodule \"s\"]\n\turl = ext::sh\n")}, "submodule.s.url"},
		"a submodule that is relative":        {Change{Old: []byte(relative), New: []byte(relative + "[submodule \"s\"]\n\turl = https://e.org/b/s.git\n"), Modules: []byte("[submodule \"s\"]\n\turl = ../b/s.git/\n")}, ""},
		"a relative submodule of another":     {Change{Old: []byte(relative), New: []byte(relative + "[submodule \"s\"]\n\turl = https://e.net/b/s.git\n"), Modules: []byte("[submodule \"s\"]\n\turl = ../b/s.git\n")}, "submodule.s.url"},
		"a submodule that is in no file yet":  {Change{New: []byte(before + "[submodule \"s\"]\n\turl = https://e.org/s\n")}, ""},
		"a submodule, a path in no file yet":  {Change{New: []byte(before + "[submodule \"s\"]\n\turl = /evil\n")}, "submodule.s.url"},
		"a new submodule's work tree":         {Change{Made: true, New: []byte("[core]\n\tworktree = ../../../s\n"), Works: func(path string) bool { return path == "../../../s" }}, ""},
		"a new submodule's, elsewhere":        {Change{Made: true, New: []byte("[core]\n\tworktree = /\n"), Works: func(string) bool { return false }}, "core.worktree"},
		"a submodule's update":                {Change{New: []byte(before + "[submodule \"s\"]\n\tupdate = !evil\n")}, "submodule.s.update"},
		"a sparse checkout":                   {Change{New: []byte(before + "[extensions]\n\tworktreeConfig = true\n[core]\n\tsparseCheckout = true\n")}, ""},
		"a sparse checkout of a work tree":    {Change{Worktree: true, Old: []byte{}, New: []byte("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = false\n")}, ""},
		"another work tree":                   {Change{New: []byte(before + "[core]\n\tworktree = /\n")}, "core.worktree"},
		"the same work tree, moved":           {Change{Worktree: true, Old: []byte{}, New: []byte("[core]\n\tworktree = ../w\n"), Other: []byte("[core]\n\tworktree = ../w\n")}, ""},
		"another work tree of a work tree":    {Change{Worktree: true, Old: []byte{}, New: []byte("[core]\n\tworktree = ../x\n"), Other: []byte("[core]\n\tworktree = ../w\n")}, "core.worktree"},
		"a program":                           {Change{New: []byte(before + "[core]\n\tfsmonitor = evil\n")}, "core.fsmonitor"},
		"a program, for branches":             {Change{New: []byte(before + "[branch]\n\tsort = x\n")}, "branch.sort"},
		"an alias":                            {Change{New: []byte(before + "[alias]\n\tst = !evil\n")}, "alias.st"},
		"configuration elsewhere":             {Change{New: []byte(before + "[include]\n\tpath = evil\n")}, "include.path"},
		"a program that goes":                 {Change{New: []byte(strings.Replace(before, "\teditor = \"vi # mine\" ; yes\n", "", 1))}, "takes away core.editor"},
		"another order":                       {Change{Old: []byte("[include]\n\tpath = a\n[user]\n\tname = b\n"), New: []byte("[user]\n\tname = b\n[include]\n\tpath = a\n")}, "another order"},
		"a line that goes on":                 {Change{New: []byte(before + "[branch \"x\"]\n\tdescription = a\\\nb\n")}, "does not write it"},
		"a character of control":              {Change{New: []byte(before + "[branch \"x\"]\n\tdescription = a\x1bb\n")}, "does not write it"},
		"a line end of another system":        {Change{New: []byte(before + "[branch \"x\"]\r\n")}, "does not write it"},
		"nonsense":                            {Change{New: []byte(before + "[branch \"x\n")}, "does not write it"},
		"a new repository":                    {Change{Made: true, New: []byte("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[remote \"origin\"]\n\turl = /w/up\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n")}, ""},
		"a new repository with a program":     {Change{Made: true, New: []byte("[core]\n\tsshCommand = evil\n")}, "core.sshcommand"},
		"a new repository's remote that runs": {Change{Made: true, New: []byte("[remote \"origin\"]\n\turl = ext::sh\n")}, "address"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.c.Old == nil && !tt.c.Made {
				tt.c.Old = []byte(before)
			}
			a, err := tt.c.Accept()
			switch {
			case tt.fail == "" && (err != nil || a.Dropped != "" || string(a.Text) != string(tt.c.New)):
				t.Errorf("%v, %q, %q", err, a.Dropped, a.Text)
			case tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)):
				t.Errorf("got %v, want %q", err, tt.fail)
			}
		})
	}
}

// In the middle of a switch nothing is refused: an upstream that may not be is left out.
func TestAcceptDrops(t *testing.T) {
	added := before + "[remote \"x\"]\n\turl = https://e.org/x\n"
	a, err := Change{Old: []byte(added), New: []byte(added + "[branch \"new\"]\n\tremote = x\n"), Added: map[string]bool{"x": true}}.Accept()
	if err != nil || !strings.Contains(a.Dropped, "branch.new.remote was not set") {
		t.Fatalf("%v, %q", err, a.Dropped)
	}
	got, err := Parse(a.Text)
	want, _ := Parse([]byte(added))
	if err != nil || !same(got, want) {
		t.Errorf("%v:\n%s", err, a.Text)
	}
	again := strings.Replace(before, "bare = false", "bare = false\n\tfilemode = true", 1) // as git init has it, once more
	if a, err := (Change{Old: []byte(again), New: []byte(strings.Replace(again, "filemode = true", "filemode = false", 1))}).Accept(); err != nil || string(a.Text) != again || !strings.Contains(a.Dropped, "core.filemode stays") {
		t.Errorf("the same repository, made again: %v, %q, %q", err, a.Text, a.Dropped)
	}
	odd := []byte("[core]\r\n\teditor = vi\r\n")
	if a, err := (Change{Old: odd, New: append(odd, "[alias]\n\tx = !y\n"...)}).Accept(); err != nil || string(a.Text) != string(odd) || a.Dropped == "" {
		t.Errorf("a configuration that gander does not change: %v, %q, %q", err, a.Text, a.Dropped)
	}
}
