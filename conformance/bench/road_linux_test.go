package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"gander.dev/gander/sandbox"
	"gander.dev/gander/sandbox/drivers/local"
	"gander.dev/gander/sandbox/outbound/egress"
)

// fetcherName is this program as one that makes requests: fetcherName URL TIMES.
const fetcherName = "gander-bench-fetcher"

// fetcher prints how many nanoseconds a request takes that looks up its host and makes a
// connection of its own, by the proxy where the environment names one.
func fetcher(url, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	begun := time.Now()
	for range n {
		res, err := client.Get(url)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(text) != "hello" {
			return fmt.Errorf("%s: %q, %v", res.Status, text, err)
		}
	}
	fmt.Println(int(time.Since(begun)) / n)
	return nil
}

// sameRoad measures a request to an allowed host by plain TCP, beside one by the proxy.
func (b *bench) sameRoad() {
	b.t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer s.Close()
	rules, err := egress.ParseRules([]string{"bench.example:8080"}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	door := egress.New(egress.Options{
		Rules: rules,
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
		Connect: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.Listener.Addr().String())
		},
	})
	defer func() { _ = door.Close() }()
	program := b.program(fetcherName)
	sb, err := local.New(local.Options{}).Create(b.t.Context(), sandbox.Spec{
		ID: "bench-road", WorkingDir: b.mkdir("sandboxed"), Home: b.mkdir("inside"), Mounts: []sandbox.Mount{{Path: program}},
		Doors: []sandbox.Door{{Name: "egress", Dial: door.Dial}}, Road: door, Rules: &sandbox.Rules{Own: "/nowhere/.gooseignore"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = sb.Close() }()
	side := func(into *samples, env ...string) func() {
		return func() {
			p, err := sb.Start(b.t.Context(), sandbox.Command{Args: []string{program, "http://bench.example:8080/", strconv.Itoa(b.runs(200))}, Env: env, NullStdin: true})
			if err != nil {
				b.t.Fatal(err)
			}
			out, outErr := io.ReadAll(p.Stdout())
			said, _ := io.ReadAll(p.Stderr())
			took, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil || outErr != nil {
				b.t.Fatalf("%q %s %v", out, said, outErr)
			}
			into.add(milliseconds(time.Duration(took)))
		}
	}
	var plain, proxied samples
	ours, theirs := side(&plain), side(&proxied, sandbox.ProxyEnvironment(sb.Info().Doors["egress"])...)
	alternate(1, ours, theirs)
	plain, proxied = nil, nil
	alternate(b.runs(15), ours, theirs)
	b.table.atMost(1.3, pair{"a request to an allowed host by plain TCP, beside one by the proxy", plain, proxied, inMS})
}
