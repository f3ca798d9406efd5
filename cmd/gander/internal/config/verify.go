package config

// Check fails for what would be wrong with data as the user's file of that name.
// environ is the environment.
func Check(path string, data []byte, environ []string) error {
	c := defaults()
	c.env = newEnvironment(environ)
	return c.read(path, &file{data: data}, false)
}
