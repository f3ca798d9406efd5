package changes

import (
	"bufio"
	"io"
	"path"
	"regexp"
	"strings"
)

// readHead is the commit that the repository in the root has checked out, as the
// files of .git say; "" when there is none, or it is kept otherwise. It is for
// telling that HEAD moved, and nothing else is taken from there.
func readHead(r *root) string {
	head := strings.TrimSpace(firstLine(r, ".git/HEAD"))
	ref, ok := strings.CutPrefix(head, "ref: ")
	if !ok {
		return commitID(head)
	}
	if !strings.HasPrefix(ref, "refs/") || path.Clean(ref) != ref {
		return ""
	}
	if id := commitID(strings.TrimSpace(firstLine(r, ".git/"+ref))); id != "" {
		return id
	}
	return packedRef(r, ref)
}

// commitID is an object's name, or "" for anything else: the file is the agent's.
func commitID(s string) string {
	if regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`).MatchString(s) {
		return s
	}
	return ""
}

func firstLine(r *root, rel string) string {
	f, _, err := r.file(rel)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

func packedRef(r *root, ref string) string {
	f, _, err := r.file(".git/packed-refs")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 8<<20))
	for lines.Scan() {
		if id, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref {
			return commitID(id)
		}
	}
	return ""
}
