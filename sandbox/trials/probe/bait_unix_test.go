//go:build unix

package probe

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBaitFails: where what a person has cannot be laid out there is an error.
func TestBaitFails(t *testing.T) {
	base := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(base, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newBait(base, "secret", "/proc/self/exe"); err == nil {
		t.Error("files were made below a file")
	}
}
