package config

import "path/filepath"

// Check fails for what would be wrong with data as the user's file of that name.
// environ is the environment.
func Check(path string, data []byte, environ []string) error {
	c := defaults()
	c.env, c.Home = newEnvironment(environ), filepath.Dir(path)
	c.team, c.wrong = c.readTeam()
	return c.read(path, &file{data: data}, false)
}
