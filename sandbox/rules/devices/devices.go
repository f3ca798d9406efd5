// Package devices finds the devices that a person's configuration gives to sandboxes: those that
// it names, and never disks, memory, or terminals. Use [Find].
package devices

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// gpus are the devices of graphics processors, as patterns, by the name of their maker.
var gpus = map[string][]string{
	"nvidia": {"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*"},
	"amd":    {"/dev/kfd", "/dev/dri/*"},
	"intel":  {"/dev/dri/*"},
}

// Check says what is wrong with a name; nil when nothing is. The device need not be there.
func Check(name string) error {
	if gpus[name] != nil || strings.HasPrefix(name, "/dev/") && filepath.Clean(name) == name {
		return nil
	}
	return fmt.Errorf("%q is no device; want a path below /dev, or a graphics processor by its maker: amd, intel, nvidia", name)
}

// Find returns the paths of devices, sorted. A directory stands for the devices in it. It fails
// for one that is not there, and for one that no sandbox gets.
func Find(names []string) (paths []string, err error) {
	for _, name := range names {
		if err := Check(name); err != nil {
			return nil, fmt.Errorf("sandbox.devices: %w", err)
		}
		found := []string{name}
		if patterns := gpus[name]; patterns != nil {
			found = nil
			for _, p := range patterns {
				more, _ := filepath.Glob(p) // the patterns are right
				found = append(found, more...)
			}
			found = slices.DeleteFunc(found, isDirectory)
			if len(found) == 0 {
				return nil, fmt.Errorf("sandbox.devices names %s, and there is no such graphics processor here; take it out", name)
			}
		} else if isDirectory(name) {
			found, _ = filepath.Glob(name + "/*")
			found = slices.DeleteFunc(found, isDirectory)
		}
		for _, path := range found {
			if why := refusal(path); why != "" {
				return nil, fmt.Errorf("sandbox.devices names %s, which %s; take it out", path, why)
			}
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
