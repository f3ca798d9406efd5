package docker

import (
	"encoding/json"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of the images only those are found that Build makes, by their own names, and only such a name is taken away.
func TestBuiltImages(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "daemon")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	daemon := http.NewServeMux()
	daemon.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
			removed = append(removed, path.Base(r.URL.Path))
			_, _ = w.Write([]byte("[]"))
		case path.Base(r.URL.Path) == "json":
			_ = json.NewEncoder(w).Encode([]map[string]any{
				{"RepoTags": []string{"mine:1", ImageName("opencode")}, "Size": 7},
				{"RepoTags": []string{"goku-sandbox-mine:latest", ImageName("goose")}, "Size": 5},
				{"RepoTags": nil, "Size": 1},
			})
		}
	})
	server := &http.Server{Handler: daemon}
	go func() { _ = server.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })

	o := Options{Host: "unix://" + socket}
	got, err := BuiltImages(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]BuiltImage{{ImageName("goose"), 5}, {ImageName("opencode"), 7}}, got); diff != "" {
		t.Error(diff)
	}
	if err := RemoveImage(t.Context(), o, got[0].Name); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ImageName("goose")}, removed); diff != "" {
		t.Error(diff)
	}
}
