// Package config is the program's configuration, and the only reader of its
// environment.
//
// [Load] puts together, from the weakest to the strongest: defaults, the user's
// config.json under the home directory, the project's .gander.json, the
// environment, flags. A project comes with a repository that somebody else wrote,
// so it may only choose among what the user has allowed: see projectKeys. Files
// are strict: an unknown key, a wrong type or a bad value is an [Error] that names
// file, line and key. The format is published as [Schema].
//
// A *Config does not change and may be shared; [Config.Watch] hands out a new one
// when a file changes.
package config
