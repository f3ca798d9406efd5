package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The sockets on which the host listens in the project.
const (
	streamName   = "helper.sock"
	datagramName = "helper.dgram"
)

// readyName is a file by which an attempt says that the host may begin, enoughName one by
// which it says that it has made its rounds, stopName one by which the host says that it
// has done.
const (
	readyName  = "ready"
	enoughName = "enough"
	stopName   = "stop"
)

// RulesFile is the text that closes, in every directory of a case, what the
// attempts are after.
const RulesFile = ".env\nprivate/\n"

// Populate makes the directory of a case, and one beside it with a hard link of a
// closed file: secret is what the closed files have.
func Populate(dir, out, secret string) error {
	for name, text := range map[string]string{
		".env": secret, "private/key": secret, "private/deep/er/key": secret, "sub/plain": "plain", ".gooseignore": RulesFile, "open": "open",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o666); err != nil {
			return err
		}
	}
	return errors.Join(
		os.MkdirAll(out, 0o777),
		os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "hardlink")),
		os.Link(filepath.Join(dir, ".env"), filepath.Join(out, "hardlink")),
		forAll(dir), forAll(out))
}

// forAll lets everybody at a tree, whoever the sandbox's user is.
func forAll(dir string) error {
	return filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(p, 0o777)
		case d.Type().IsRegular():
			return os.Chmod(p, 0o666)
		}
		return nil
	})
}

// Contents are those files of a populated directory that must not change.
func Contents(dir, out string) map[string]string {
	all := map[string]string{}
	for _, path := range []string{
		dir + "/.env", dir + "/private/key", dir + "/private/new", dir + "/hardlink", dir + "/.gooseignore", dir + "/sub/.env", out + "/hardlink",
	} {
		st, err := os.Lstat(path)
		switch {
		case err != nil && filepath.Base(path) == "hardlink": // its name is not closed, so that it may go
		case err != nil:
			all[path] = "absent"
		case !st.Mode().IsRegular():
			all[path] = st.Mode().Type().String()
		default:
			b, err := os.ReadFile(path)
			all[path] = fmt.Sprintf("%q %v", b, err)
		}
	}
	return all
}

// changed says whether something that was is different now.
func changed(was, now map[string]string) bool {
	for path, text := range now {
		if was[path] != text {
			return true
		}
	}
	return false
}

// hostActs are what the host does to a case's directory, again and again, with
// round counting up. temporary is beside the project.
func hostActs() map[string]func(dir, temporary, secret string, round int) error {
	write := func(path, text string) error {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return err
		}
		return os.Chmod(path, 0o666)
	}
	return map[string]func(dir, temporary, secret string, round int) error{
		// as editors save: a temporary name that is closed, too, or one outside
		"replace": func(dir, temporary, secret string, round int) error {
			next := []string{filepath.Join(temporary, "next"), filepath.Join(dir, "sub", ".env")}[round%2]
			if err := write(next, secret); err != nil {
				return err
			}
			if round%3 == 0 {
				_ = os.Remove(filepath.Join(dir, ".env"))
			}
			return os.Rename(next, filepath.Join(dir, ".env"))
		},
		"create": func(dir, _, secret string, _ int) error {
			_ = os.Remove(filepath.Join(dir, ".env"))
			return write(filepath.Join(dir, ".env"), secret)
		},
		"rewrite": func(dir, _, secret string, _ int) error { return write(filepath.Join(dir, ".env"), secret) },
		"rename parent": func(dir, temporary, secret string, _ int) error {
			away := filepath.Join(temporary, "away")
			return errors.Join(os.Rename(filepath.Join(dir, "private"), away), os.Rename(away, filepath.Join(dir, "private")))
		},
		"hard link": func(dir, _, _ string, _ int) error {
			link := filepath.Join(dir, "new-link")
			err := os.Link(filepath.Join(dir, ".env"), link)
			time.Sleep(time.Millisecond) // long enough to be read
			return errors.Join(err, os.Remove(link))
		},
		"move in": func(dir, temporary, secret string, round int) error {
			from, to := filepath.Join(temporary, fmt.Sprint("in", round)), filepath.Join(dir, "moved")
			err := errors.Join(os.MkdirAll(filepath.Join(from, "private"), 0o777), write(filepath.Join(from, "private", "key"), secret), forAll(from))
			return errors.Join(err, os.Rename(from, to), os.RemoveAll(to))
		},
		"swap": func(dir, _, _ string, round int) error {
			at, next := filepath.Join(dir, "swap"), filepath.Join(dir, "swap.next")
			target := []string{"private", "sub"}[round%2]
			return errors.Join(os.Symlink(target, next), os.Rename(next, at))
		},
	}
}
