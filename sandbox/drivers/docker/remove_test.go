package docker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// A daemon that takes its time to remove a container is waited for; one that fails is not.
func TestSlowRemoval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		gone   bool
	}{
		{"at it", http.StatusConflict, true},
		{"failing", http.StatusInternalServerError, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var begun atomic.Pointer[time.Time]
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				now := time.Now()
				begun.CompareAndSwap(nil, &now)
				status := tt.status
				if now.Sub(*begun.Load()) > endTimeout+time.Second {
					status = http.StatusNotFound
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"message": "the daemon's words"}`))
			}))
			defer server.Close()
			cli, err := client.New(client.WithHost("tcp://"+strings.TrimPrefix(server.URL, "http://")), client.WithAPIVersion("1.44"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cli.Close() }()
			err = (&container{cli: cli, id: "0123", name: "box"}).remove(t.Context())
			switch {
			case tt.gone && err != nil:
				t.Error(err)
			case !tt.gone && (err == nil || !strings.Contains(err.Error(), "the daemon's words") || !strings.Contains(err.Error(), "docker rm -f box")):
				t.Errorf("got %v", err)
			}
		})
	}
}
