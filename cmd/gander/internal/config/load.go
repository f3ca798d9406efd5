package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"

	"gander.dev/gander/sandbox/rules/policy"
)

// Options say where the configuration comes from.
type Options struct {
	// Home is --home; empty means GANDER_HOME, else .gander in the person's
	// home directory.
	Home string
	// Environ is the environment, as of os.Environ.
	Environ []string
	// Flags are the flags that were given.
	Flags Flags
	// ProjectDir is the root of the project whose file counts; empty for none.
	ProjectDir string
}

// Flags are settings given on the command line; empty ones were not.
type Flags struct {
	Agent   string // --agent
	Sandbox string // --sandbox
	// AllowWeaker is --allow-weaker.
	AllowWeaker bool
	Model       string // --model
	LogLevel    string // --log-level
	LogFormat   string // --log-format
	LogFile     string // --log-file
}

// Load reads the configuration. Files that do not exist are empty ones. The
// error joins an *Error for everything that is wrong.
func Load(o Options) (*Config, error) { return load(o, nil) }

// Reload loads again what c was loaded from.
func (c *Config) Reload() (*Config, error) { return Load(c.sameOptions()) }

// load is Load, with what the user's file said before when that is to hold.
func load(o Options, user *file) (*Config, error) {
	c := defaults()
	c.o, c.env = o, newEnvironment(o.Environ)
	home, err := findHome(o.Home, c.env)
	if err != nil {
		return nil, err
	}
	c.Home, c.NoColor = home, c.env["NO_COLOR"] != ""
	c.team, c.wrong = c.readTeam()
	files := c.filesSum()
	if user == nil {
		user = readFile(c.userPath())
	}
	c.user = user
	errs := []error{c.read(c.userPath(), user, false)}
	if o.ProjectDir != "" {
		project := readProjectFile(o.ProjectDir)
		errs = append(errs, c.read(filepath.Join(o.ProjectDir, ProjectFile), project, true))
		c.project = project.data
		if project.err == nil {
			c.layers.granted = c.TrustStore().Trusted(o.ProjectDir, project.data)
		}
	}
	errs = append(errs, c.readEnvironment(), c.readFlags())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.mergePolicy()
	c.checkTeam()
	c.keys = c.readKeys()
	c.seen = sumKeys(c.keys, files)
	if err := c.checkHidden(); err != nil {
		return nil, err
	}
	return c, nil
}

// ForProject is the configuration with the file of the project in dir. What the
// user's file says now does not count: c is its last good content.
func (c *Config) ForProject(dir string) (*Config, error) {
	o := c.sameOptions()
	o.ProjectDir = dir
	return load(o, c.user)
}

func (c *Config) userPath() string { return filepath.Join(c.Home, UserFile) }

// HomeDir returns gander's home directory, also where the configuration is broken: the
// flag's, that of GANDER_HOME, or the default.
func HomeDir(flag string, environ []string) (string, error) {
	return findHome(flag, newEnvironment(environ))
}

// findHome is the home directory: the flag's, the variable's or the default.
func findHome(flag string, env environment) (string, error) {
	for _, dir := range []string{flag, env["GANDER_HOME"]} {
		if dir != "" {
			return filepath.Abs(dir)
		}
	}
	person, err := env.personalDir()
	if err != nil {
		return "", &Error{Path: "HOME", Reason: "there is no home directory (" + err.Error() + "); give one with --home DIR or GANDER_HOME"}
	}
	if !filepath.IsAbs(person) {
		return "", &Error{Path: PersonalVariable(), Reason: fmt.Sprintf("%q is not an absolute path; set it to your own directory, or give gander one with --home DIR or GANDER_HOME", person)}
	}
	return filepath.Join(person, ".gander"), nil
}

// Far above what configurations need. A project's is a stranger's, which is to keep nobody waiting.
const (
	maxFileBytes    = 1 << 20
	maxProjectBytes = 64 << 10
)

// file is what a file said, or why it could not be read.
type file struct {
	data []byte
	err  error
}

func readFile(path string) *file {
	data, err := readRegular(path)
	return &file{data, err}
}

// readProjectFile reads a project's file. Links that lead out of the project are
// not followed: a repository must not have other files read as its own.
func readProjectFile(dir string) *file {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &file{err: cause(err)}
	}
	defer root.Close()
	info, err := root.Lstat(ProjectFile)
	if err != nil {
		return &file{err: cause(err)}
	}
	if !info.Mode().IsRegular() {
		return &file{err: errors.New("not a regular file")}
	}
	f, err := root.Open(ProjectFile)
	if err != nil {
		return &file{err: cause(err)}
	}
	defer f.Close()
	data, err := readAll(f, maxProjectBytes)
	return &file{data, err}
}

// read puts a file over what c holds.
func (c *Config) read(path string, f *file, project bool) error {
	data := f.data
	if errors.Is(f.err, fs.ErrNotExist) {
		return nil
	}
	if f.err != nil {
		e := &Error{File: path, Reason: f.err.Error()}
		if project {
			e.Reason += "; make it readable, or take it out of the project"
		} else {
			e.Reason += "; make it readable, or choose another home with --home or GANDER_HOME"
		}
		return e
	}
	root, err := parse(data)
	if e, ok := errors.AsType[*Error](err); ok {
		e.File = path
		return e
	}
	d := decoder{file: path, project: project, team: c.teamNames(), data: data, places: map[string]int{}}
	c.Policy = policy.Policy{} // each file has a layer of its own
	d.decode(root, "", reflect.ValueOf(c).Elem(), "")
	if project {
		d.checkProject(c.userPath())
	}
	d.check(c)
	c.layers.add(project, c.Policy, &d)
	for p := range d.places {
		c.sources[p] = path
	}
	return errors.Join(d.errs...)
}

// readRegular reads a file that may be somebody else's: no device, no pipe, not huge, and
// none that another program has a lease on.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return readAll(f, maxFileBytes)
}

func readAll(f io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, cause(err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("larger than %d bytes", most)
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil // some editors of Windows begin with a mark
}

// cause is the error without the path, which the caller names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// A setting is a value of a flag or variable for a field.
type setting struct {
	name, value string
	field       *string
	enum        string
}

// apply sets what was given.
func apply(settings []setting) error {
	var errs []error
	for _, s := range settings {
		if s.value == "" {
			continue
		}
		if why := notOneOf(s.value, s.enum); why != "" {
			errs = append(errs, &Error{Path: s.name, Reason: why})
			continue
		}
		*s.field = s.value
	}
	return errors.Join(errs...)
}

func (c *Config) readEnvironment() error {
	return apply([]setting{
		{"GANDER_LOG_LEVEL", c.env["GANDER_LOG_LEVEL"], &c.Log.Level, enumOf(Log{}, "Level")},
		{"GANDER_LOG_FORMAT", c.env["GANDER_LOG_FORMAT"], &c.Log.Format, enumOf(Log{}, "Format")},
	})
}

func (c *Config) readFlags() error {
	f := c.o.Flags
	if f.LogFile != "" {
		path, err := filepath.Abs(f.LogFile)
		if err != nil {
			return &Error{Path: "--log-file", Reason: err.Error()}
		}
		f.LogFile = path
	}
	if f.Agent != "" {
		if why := c.NotAgent(f.Agent); why != "" {
			return &Error{Path: "--agent", Reason: why}
		}
		c.Agent = f.Agent
	}
	c.Sandbox.AllowWeaker = c.Sandbox.AllowWeaker || f.AllowWeaker
	return apply([]setting{
		{"--sandbox", f.Sandbox, &c.Sandbox.Driver, enumOf(Sandbox{}, "Driver")},
		{"--log-level", f.LogLevel, &c.Log.Level, enumOf(Log{}, "Level")},
		{"--log-format", f.LogFormat, &c.Log.Format, enumOf(Log{}, "Format")},
		{"--log-file", f.LogFile, &c.Log.File, ""},
	})
}

// enumOf is the enumeration in the tag of a field.
func enumOf(structure any, field string) string {
	f, _ := reflect.TypeOf(structure).FieldByName(field)
	return f.Tag.Get("enum")
}
