package config

import (
	"errors"
	"fmt"
	"reflect"
)

// OneOrMany marks a list that may also be written as its only item.
type OneOrMany interface{ OneOrMany() }

// A File is JSON that was read as strictly as the configuration is: a key that nobody knows, one that
// is there twice and a value of another kind are errors with their place.
type File struct{ d decoder }

// ReadFile sets what into points to, a struct, from the text of a file of that name. What is not in
// the file stays as it was.
func ReadFile(name string, data []byte, into any) (*File, error) {
	f := &File{decoder{file: name, data: data, places: map[string]int{}}}
	root, err := parse(data)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.File = name
		}
		return f, err
	}
	f.d.decode(root, "", reflect.ValueOf(into).Elem(), "")
	return f, f.Err()
}

// Has reports whether a value is in the file, by its path.
func (f *File) Has(path string) bool {
	_, ok := f.d.places[path]
	return ok
}

// Fail adds an error about a value, at its place.
func (f *File) Fail(path, format string, args ...any) {
	f.d.fail(f.d.places[path], path, "%s", fmt.Sprintf(format, args...))
}

// Err returns all errors; nil when there are none.
func (f *File) Err() error { return errors.Join(f.d.errs...) }
