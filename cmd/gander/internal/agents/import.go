package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gander.dev/gander/cmd/gander/internal/cli"
	"gander.dev/gander/cmd/gander/internal/wire"
	"gander.dev/gander/sandbox/team/roster"
	"gander.dev/gander/sandbox/team/skills"
)

// importSkills takes over the skills of an OpenGoat home: those of all agents, and those of each.
func importSkills(a *cli.App, home string, dry bool) []roster.Imported {
	found := importSkillsOf(a, "", filepath.Join(home, "skills"), dry)
	agents, _ := filepath.Glob(filepath.Join(home, "workspaces", "*", "skills")) // the pattern is right
	for _, dir := range agents {
		agent := roster.Folded(filepath.Base(filepath.Dir(dir)))
		if roster.CheckID(agent) == "" {
			found = append(found, importSkillsOf(a, agent, dir, dry)...)
		}
	}
	return found
}

// importSkillsOf takes over the skills of a folder. Each is installed in a place of its own first,
// where it shows its id.
func importSkillsOf(a *cli.App, agent, dir string, dry bool) []roster.Imported {
	var found []roster.Imported
	entries, err := os.ReadDir(dir)
	if info, linked := os.Lstat(dir); err != nil || linked != nil || !info.IsDir() {
		return nil // there are none
	}
	for _, e := range entries {
		if !e.IsDir() { // a link, too
			continue
		}
		im := roster.Imported{Kind: "skill", Name: e.Name(), State: "skipped"}
		if agent != "" {
			im.Name = agent + "/" + e.Name()
		}
		im.State, im.Note = importSkill(a.Config.SkillStore(agent), filepath.Join(dir, e.Name()), dry)
		found = append(found, im)
	}
	return found
}

func importSkill(store skills.Store, from string, dry bool) (state, note string) {
	work, err := os.MkdirTemp("", "gander-skill-")
	if err != nil {
		return "skipped", err.Error()
	}
	defer func() { _ = os.RemoveAll(work) }()
	s, err := skills.Store{Dir: work}.Install(from, "")
	if err != nil {
		return "skipped", err.Error()
	}
	if at := filepath.Join(store.Dir, s.ID); exists(at) {
		return "there", at + " stays as it is"
	}
	if !dry {
		if _, err := store.Install(from, s.ID); err != nil {
			return "skipped", err.Error()
		}
	}
	return "taken", s.ID
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// importSessions takes over the sessions of an OpenGoat home.
func importSessions(ctx context.Context, a *cli.App, home string, dry bool) ([]roster.Imported, error) {
	stores, _ := filepath.Glob(filepath.Join(home, "agents", "*", "sessions", "sessions.json")) // the pattern is right
	if len(stores) == 0 {
		return nil, nil
	}
	if dry {
		return []roster.Imported{{Kind: "sessions", Name: cli.Count(len(stores), "agents"), State: "taken", Note: "those that are not here yet"}}, nil
	}
	dir, err := cli.Absolute("importing from", home)
	if err != nil {
		return nil, err
	}
	store, err := wire.New(a).Store()
	if err != nil {
		return nil, err
	}
	done, err := store.ImportOpenGoat(ctx, dir)
	if err != nil {
		return nil, err
	}
	var found []roster.Imported
	for _, s := range done.Sessions {
		found = append(found, roster.Imported{Kind: "session", Name: string(s.ID), State: "taken", Note: fmt.Sprintf("%s, %s", s.Key, cli.Count(s.Messages, "messages"))})
	}
	for _, s := range done.Skipped {
		im := roster.Imported{Kind: "session", Name: s.What, State: "skipped", Note: s.Why}
		if s.Here {
			im.State = "there"
		}
		found = append(found, im)
	}
	return found, nil
}
