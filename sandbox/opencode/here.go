package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// direct says that gander itself does what the scripts do elsewhere: on Windows there is
// no sh, and no sandbox whose files it does not see.
const direct = runtime.GOOS == "windows"

// prepareHere is prepare.sh, without its bash: on Windows that may be another system's.
func prepareHere(home, project, program string) (in inside, err error) {
	temporary, config := filepath.Join(home, ".tmp"), filepath.Join(home, ".config", "opencode")
	needs := fmt.Sprintf(`"dependencies":{"@opencode-ai/plugin":%q}`, versionOf(program))
	err = errors.Join(
		os.RemoveAll(temporary), os.MkdirAll(temporary, 0o700), os.MkdirAll(filepath.Join(config, "node_modules"), 0o700),
		os.WriteFile(filepath.Join(config, "package.json"), []byte("{"+needs+"}\n"), 0o600),
		os.WriteFile(filepath.Join(config, "package-lock.json"), []byte(`{"packages":{"":{`+needs+"}}}\n"), 0o600))
	if err != nil {
		return inside{}, err
	}
	in.rg, _ = exec.LookPath("rg") // the PATH inside is gander's; an error means that there is none
	for _, name := range []string{"AGENTS.md", "CLAUDE.md", "CONTEXT.md"} {
		file := filepath.Join(project, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			in.instructions = file
			break
		}
	}
	for _, name := range []string{"opencode.json", "opencode.jsonc", ".opencode"} {
		if _, err := os.Stat(filepath.Join(project, name)); err == nil {
			in.ignored = name
		}
	}
	return in, nil
}

// versionOf is what the package of a program says, else the version that is known.
func versionOf(program string) string {
	var p struct{ Version string }
	if real, err := filepath.EvalSymlinks(program); err == nil {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(real)), "package.json"))
		_ = json.Unmarshal(text, &p) // a program outside of a package has none
	}
	if p.Version == "" {
		return version
	}
	return p.Version
}

// writeHere is write.sh: it puts text into a file of the project, by a path that stays
// there, unless it has other content than before says.
func writeHere(project, file, before, text string) error {
	name, err := filepath.Rel(project, file)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(project)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", file)
	}
	if before != "" {
		now, err := root.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if digest(string(now)) != before {
			return nil // somebody has changed it since
		}
	}
	return root.WriteFile(name, []byte(text), 0o644)
}
