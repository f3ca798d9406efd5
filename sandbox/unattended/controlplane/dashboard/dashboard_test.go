package dashboard_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"gander.dev/gander/sandbox/unattended/controlplane/dashboard"
)

// Every import and every reference is to a part that is there, and to nothing else.
func TestPartsReferToParts(t *testing.T) {
	reference := regexp.MustCompile(`(?:from |import\()"([^"]+)"|(?:href|src)="([^"#][^"]*)"|url\(`)
	eachPart(t, func(name, text string) {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			target := strings.TrimPrefix(strings.Replace(m[1]+m[2], "./", "/assets/", 1), "/")
			if _, err := fs.Stat(dashboard.Files(), target); err != nil {
				t.Errorf("%s refers to %s: %v", name, m[0], err)
			}
		}
	})
}

// The policy forbids these in browsers that know it; the others have this test.
func TestNoMarkupOfStrings(t *testing.T) {
	sink := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|createContextualFragment|setHTML|\beval\(|new Function|\son[a-z]+=|style="|https?://[^w]`)
	eachPart(t, func(name, text string) {
		for i, line := range strings.Split(text, "\n") {
			if found := sink.FindString(line); found != "" {
				t.Errorf("%s:%d: %s: %s", name, i+1, found, line)
			}
		}
	})
}

func eachPart(t *testing.T, visit func(name, text string)) {
	t.Helper()
	n := 0
	err := fs.WalkDir(dashboard.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := fs.ReadFile(dashboard.Files(), name)
		visit(name, string(text))
		return err
	})
	if err != nil || n < 15 {
		t.Fatalf("%d parts read: %v", n, err)
	}
}
