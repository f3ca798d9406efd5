package wire

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"gander.dev/gander/cmd/gander/internal/config"
	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/confine"
	"gander.dev/gander/sandbox/rules/gitconfig"
	"gander.dev/gander/sandbox/rules/policy"
	"gander.dev/gander/sandbox/rules/project"
	"gander.dev/gander/sandbox/team/skills"
)

// Unkept says that what a policy closes is open on a system; empty where a sandbox
// keeps it.
func Unkept(system string) string {
	if system != "windows" {
		return ""
	}
	return "nothing closes files and hosts on Windows, where gander has no sandbox; run gander inside WSL"
}

// Policy implements confine.Settings. It has what a project's trusted file adds to what
// drivers and agents have of the person's.
func (w *Wiring) Policy(dir string) (confine.Policy, error) {
	person := w.Config()
	if dir == "" {
		return confine.Policy{Policy: person.Policy}, nil
	}
	cfg, err := person.ForProject(dir)
	if err != nil {
		return confine.Policy{}, err
	}
	if err := CheckShown(cfg); err != nil {
		return confine.Policy{}, err
	}
	e := cfg.EffectivePolicy()
	p := confine.Policy{Policy: e.Policy, Refused: e.Refused, Settings: GitSettings(cfg, dir), Caches: int64(cfg.Sandbox.Caches)}
	if w.network != nil {
		p.Network = *w.network
	}
	tools := cfg.FindToolchains(dir)
	for _, place := range tools.Places {
		p.Mounts = append(p.Mounts, sandbox.Mount{Path: place.Path})
	}
	p.HomeFiles, p.Files = map[string][]byte{}, map[string][]byte{}
	settings := cfg.FindToolSettings(dir)
	maps.Copy(p.HomeFiles, settings.Home)
	maps.Copy(p.HomeFiles, tools.Files)
	maps.Copy(p.Files, settings.Own)
	for _, a := range FindAuthorities(cfg, dir) {
		if a.text != nil {
			p.Files[a.Path] = a.text
		}
	}
	mounts, links := showSkills(cfg.FindSkills("", dir).Skills)
	p.Mounts, p.HomeLinks = append(p.Mounts, mounts...), links
	for _, path := range e.ReadOnlyPaths {
		if !slices.Contains(person.Policy.ReadOnlyPaths, path) {
			p.Mounts = append(p.Mounts, sandbox.Mount{Path: path})
		}
	}
	if e.Project != policy.ProjectDirectory {
		p = p.WithPlace(GitPlace(cfg, dir, false))
	}
	known := person.SandboxEnvironment()
	for _, v := range cfg.SandboxEnvironment() {
		if !slices.Contains(known, v) {
			p.Env = append(p.Env, v)
		}
	}
	return p, nil
}

// Canaries implements confine.Settings.
func (w *Wiring) Canaries(dir string) string {
	cfg, err := w.Config().ForProject(dir)
	if err != nil {
		return confine.CanariesStop
	}
	return cfg.EffectivePolicy().Canaries
}

// GitSettings returns the person's settings of git that count in sandboxes of a project.
func GitSettings(cfg *config.Config, dir string) gitconfig.Settings {
	return gitconfig.Read(gitconfig.Options{Variable: os.Getenv, Project: dir, Writable: []string{dir, cfg.Home}})
}

// GitPlace returns where git keeps what belongs to a project elsewhere. The stores of objects that
// there are when it is asked for first count from then on; agree says that those of now do.
func GitPlace(cfg *config.Config, dir string, agree bool) gitconfig.Place {
	return gitconfig.Find(gitconfig.PlaceOptions{
		Project: dir, Private: []string{cfg.Home}, Homes: project.Homes(),
		Known: func(stores []string) []string { return cfg.TrustStore().Stores(dir, stores, agree) },
	})
}

// showSkills returns what shows skills in a sandbox: each folder for reading, and a link to it
// where agents look for skills.
func showSkills(found []skills.Skill) (mounts []sandbox.Mount, links map[string]string) {
	if runtime.GOOS == "windows" { // which has no links for everybody
		return nil, nil
	}
	links = map[string]string{}
	for _, s := range found {
		mounts = append(mounts, sandbox.Mount{Path: s.Dir, Ruled: true})
		links[s.Home+"/"+s.ID] = s.Dir
	}
	return mounts, links
}

// PermissionsDir returns the directory of the answers that hold for good.
func PermissionsDir(cfg *config.Config) string { return filepath.Join(cfg.Home, "permissions") }

// CheckShown fails when sandboxes cannot show what the configuration has them show.
func CheckShown(cfg *config.Config) error {
	if cfg.Sandbox.Driver == sandbox.Off { // which shows everything
		return nil
	}
	return cfg.CheckReadOnlyPaths()
}
