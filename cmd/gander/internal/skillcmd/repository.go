package skillcmd

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/show"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/team/skills"
)

// A repository is a git repository of skills at a commit.
type repository struct {
	url    *url.URL // https or ssh
	commit string
	folder string // in the repository; may be empty
}

// remote begins what can only be a repository elsewhere.
var remote = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*://|[^/@:\s]+@[^/:\s]+:)`)

// inHost matches what ssh has as user@host:path.
var inHost = regexp.MustCompile(`^([^/@:\s]+@[^/:\s]+):(.*)$`)

var commitRule = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// parseRepository reads URL#COMMIT or URL#COMMIT:FOLDER, where the URL is https, ssh or user@host:path.
func parseRepository(text string) (repository, error) {
	address, version, _ := strings.Cut(text, "#")
	commit, folder, _ := strings.Cut(version, ":")
	if m := inHost.FindStringSubmatch(address); m != nil && !strings.Contains(address, "://") {
		address = "ssh://" + m[1] + "/" + strings.TrimPrefix(m[2], "/")
		if !strings.HasPrefix(m[2], "/") { // which is below the home of the user there
			address = "ssh://" + m[1] + "/~/" + m[2]
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return repository{}, fmt.Errorf("%q is no URL: %w", text, errors.Unwrap(err))
	case u.Scheme != "https" && u.Scheme != "ssh":
		return repository{}, fmt.Errorf("%s: skills come from https and ssh URLs; clone or download it, and name the folder or the archive", u.Redacted())
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") || u.RawQuery != "" || strings.Trim(u.Path, "/") == "":
		return repository{}, fmt.Errorf("%s: a URL of a repository has a host and a path, as https://git.example.org/team/skills.git", u.Redacted())
	}
	if _, secret := u.User.Password(); secret || u.Scheme == "https" && u.User != nil {
		return repository{}, fmt.Errorf("%s: gander keeps no password of a repository; use its ssh URL, or clone it and name the folder", u.Redacted())
	}
	if !commitRule.MatchString(commit) {
		return repository{}, fmt.Errorf("%s: name the commit in full, as %s#0123…cdef, or #0123…cdef:FOLDER; git ls-remote %s lists those of branches and tags", text, address, address)
	}
	return repository{u, commit, strings.Trim(path.Clean("/"+folder), "/")}, nil
}

func (r repository) String() string {
	text := r.url.String() + "#" + r.commit
	if r.folder != "" {
		text += ":" + r.folder
	}
	return text
}

// host is the repository's host with its port, as policies have it.
func (r repository) host() string {
	port := map[string]string{"https": "443", "ssh": "22"}[r.url.Scheme]
	return net.JoinHostPort(r.url.Hostname(), cmp.Or(r.url.Port(), port))
}

// Bounds of a fetch: its time, and the size of the archive.
const (
	fetchTime  = 5 * time.Minute
	maxArchive = 64 << 20
)

//go:embed fetch.sh
var fetchScript string

// sshDoor leads from git in the sandbox to the person's ssh.
const sshDoor = "ssh"

// fetch has git in a sandbox write an archive of a repository's folder at its commit. The sandbox
// reaches the repository's host, and those that the person allows everywhere; no submodules, filters or hooks run. The person's
// own ssh connects to an ssh URL, outside of the sandbox, so that no key comes in.
func (r repository) fetch(ctx context.Context, a *cli.App, to string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("the host took more than %s", fetchTime))
	defer cancel()
	work, err := os.MkdirTemp("", "gander-skill-")
	if err != nil {
		return fmt.Errorf("making a directory for the repository: %w", err)
	}
	defer wire.Remove(a, work)
	place := wire.Place{CWD: work, Name: "skill-" + wire.RandomName(), Purpose: "skill", Quiet: true, Network: &policy.Network{}}
	if r.url.Scheme == "ssh" {
		place.Doors = []sandbox.Door{{Name: sshDoor, Dial: func(context.Context) (net.Conn, error) { return r.dial(ctx, a.Err) }}}
	} else {
		place.Network.Allow = []string{r.host()}
	}
	in, done, err := wire.OpenSandbox(ctx, a, place)
	if err != nil {
		return err
	}
	defer done()
	info := in.Sandbox.Info()
	if !info.Isolated {
		return errors.New("a repository is fetched in a sandbox, and there is none here (see gander doctor); clone it yourself, and name the folder")
	}
	env, err := wire.InsideEnv(a.Config)
	if err != nil {
		return err
	}
	env = append(info.Environment(env), sandbox.HomeEnvironment(info.Home)...)
	env = append(env, sandbox.ProxyEnvironment(info.Doors[confine.EgressDoor])...)
	address := r.url.String()
	if door := info.Doors[sshDoor]; door != "" {
		address = "ssh://door/repository"
		env = append(env, "GANDER_SSH_DOOR=/dev/tcp/"+strings.Replace(door, ":", "/", 1))
	}
	p, err := in.Sandbox.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", fetchScript, "fetch", address, r.commit, r.folder}, Env: env})
	if err != nil {
		return fmt.Errorf("starting bash and git in the sandbox, which a fetch needs: %w", err)
	}
	_ = p.Stdin().Close()
	return keep(ctx, p, to)
}

// keep writes what a process prints to a file, within the bounds.
func keep(ctx context.Context, p sandbox.Process, to string) error {
	defer func() { _ = p.Kill(context.WithoutCancel(ctx)) }()
	var said bytes.Buffer
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		_, _ = io.Copy(&said, io.LimitReader(p.Stderr(), 8<<10))
		_, _ = io.Copy(io.Discard, p.Stderr())
	}()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(p.Stdout(), maxArchive+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keeping the archive: %w", err)
	}
	if n > maxArchive {
		return fmt.Errorf("the folder has more than %d MiB; name the folder of one skill", maxArchive>>20)
	}
	status, err := p.Wait(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	_ = p.Kill(ctx) // what it left holds its stderr
	<-quiet
	if status.Code != 0 {
		return fmt.Errorf("git failed: %s", cli.Printable(strings.TrimSpace(said.String())))
	}
	return nil
}

// dial starts the person's ssh to the repository's host, and returns its stdin and stdout. ssh
// ends with ctx.
func (r repository) dial(ctx context.Context, complaints io.Writer) (net.Conn, error) {
	where := strings.TrimPrefix(r.url.Path, "/~/")
	args := []string{"-T", "-oBatchMode=yes"}
	if port := r.url.Port(); port != "" {
		args = append(args, "-p"+port)
	}
	if user := r.url.User.Username(); user != "" {
		args = append(args, "-l"+user)
	}
	args = append(args, r.url.Hostname(), "git-upload-pack '"+strings.ReplaceAll(where, "'", `'\''`)+"'")
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stderr = complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	go func() { // ends with the connection
		_, _ = io.Copy(in, there)
		_ = in.Close()
	}()
	go func() { // ends with ssh
		_, _ = io.Copy(there, out)
		_ = there.Close()
		_ = cmd.Wait()
	}()
	return here, nil
}

// installRepository installs the skill in a repository.
func installRepository(ctx context.Context, a *cli.App, store skills.Store, text, id string) (skills.Skill, error) {
	r, err := parseRepository(text)
	if err != nil {
		return skills.Skill{}, err
	}
	dir, err := os.MkdirTemp("", "gander-skill-")
	if err != nil {
		return skills.Skill{}, fmt.Errorf("making a directory for the archive: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	archive := filepath.Join(dir, strings.TrimSuffix(path.Base(cmp.Or(r.folder, r.url.Path)), ".git")+".tar")
	fetch := func() error { return r.fetch(ctx, a, archive) }
	if r.url.Scheme == "ssh" { // which may ask for a passphrase
		err = fetch()
	} else {
		err = show.During(a, "fetching "+r.String(), 5*time.Second, fetch)
	}
	if err != nil {
		return skills.Skill{}, fmt.Errorf("%s: %w", r, err)
	}
	return store.InstallFrom(archive, r.String(), id)
}
