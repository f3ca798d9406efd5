package enforce

import (
	"os"
	"path/filepath"
	"testing"
)

// publicUses open what somebody has in $OUT; the link is beside them.
func publicUses() map[string]func(string) ([]byte, error) {
	const paths = `"$OUT/key" "$OUT//./key" "$OUT/shut/key" link /proc/self/cwd/link`
	return map[string]func(string) ([]byte, error){
		"what everybody may read": script(`cat "$OUT/open"; cd "$OUT"; cat open shown/open; ls shown`),
		"what nobody else may":    script(`for path in ` + paths + `; do if cat "$path"; then exit 1; fi; done; cd "$OUT"; if cat key; then exit 1; fi; cd shut; if cat key; then exit 1; fi`),
		"all":                     script(`cat "$OUT/key" "$OUT/shut/key" link`),
	}
}

// Where only what everybody may read is open, the owner opens no more.
func TestPublic(t *testing.T) {
	requireSupport(t)
	for use, public := range map[string]bool{"what everybody may read": true, "what nobody else may": true, "all": false} {
		t.Run(use, func(t *testing.T) {
			dir, out := stage(t)
			for name, mode := range map[string]os.FileMode{"open": 0o644, "key": 0o640, "shut/key": 0o644, "shown/open": 0o644} {
				path := filepath.Join(out, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(out, "shut"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(out, "key"), filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			where := placement{}
			if public {
				where.public = []string{out}
			}
			var r report
			start(t, dir, testPolicy(), where, "use", use).run(t, &r)
			if !r.Leak {
				t.Errorf("%s", r.Said)
			}
		})
	}
}
