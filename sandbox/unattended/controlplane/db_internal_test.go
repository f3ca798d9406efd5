package controlplane

import "testing"

// SQLite takes what follows two slashes for a host, which a drive of Windows is not.
func TestAddressOfDatabase(t *testing.T) {
	for file, want := range map[string]string{
		"/home/a b/sandbox.db":        "file:///home/a%20b/sandbox.db?_pragma=query_only%281%29",
		"C:/Users/a b?/x%/sandbox.db": "file:///C:/Users/a%20b%3F/x%25/sandbox.db?_pragma=query_only%281%29",
	} {
		if got := dsn(file, "query_only(1)"); got != want {
			t.Errorf("dsn(%q) = %q, want %q", file, got, want)
		}
	}
}
