package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"gander.dev/gander/sandbox/outbound/gateway"
)

// tlsServer starts an endpoint whose certificate no system knows.
func tlsServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLS(t *testing.T) {
	s := tlsServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) })
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: s.URL}})
	const fix = "install ca-certificates or set SSL_CERT_FILE"
	res, body := d.ask("{}")
	if res.StatusCode != 502 || !strings.Contains(body, fix) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if e := d.events.last(t, 2); e.Kind != gateway.Untrusted || e.Retry || !strings.Contains(e.Message, fix) {
		t.Errorf("event %+v", e)
	}
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), fix) {
		t.Errorf("check: %v", err)
	}

	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	known := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: s.URL, RootCAs: roots}})
	if res, body := known.ask("{}"); res.StatusCode != 200 {
		t.Errorf("with the CA: %d %s", res.StatusCode, body)
	}
	if err := known.Check(t.Context()); err != nil {
		t.Errorf("check with the CA: %v", err)
	}

	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	named := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: other, RootCAs: roots}})
	if err := named.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "is for another name") {
		t.Errorf("check of another name: %v", err)
	}
}

func TestSchemeMixedUp(t *testing.T) {
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: strings.Replace(plain, "http:", "https:", 1)}})
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "use http:// in LLM_HOST") {
		t.Errorf("TLS to plain HTTP: %v", err)
	}
}

func TestBodies(t *testing.T) {
	sizes := make(chan int64, 1)
	d := open(t, gateway.Options{Remote: true, MaxBody: 3 << 20, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err == nil {
			sizes <- int64(len(data))
			_, _ = w.Write(data)
		}
	})}})
	send := func(body io.Reader) (int, []byte) {
		t.Helper()
		res, err := d.client.Do(d.request(t.Context(), body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, data
	}
	for _, size := range []int{0, 1000, 3 << 20} {
		want := bytes.Repeat([]byte("x"), size)
		for _, body := range []io.Reader{bytes.NewReader(want), io.MultiReader(bytes.NewReader(want))} {
			if status, got := send(body); status != 200 || !bytes.Equal(got, want) || <-sizes != int64(size) {
				t.Errorf("%d bytes (%T): status %d, %d bytes back", size, body, status, len(got))
			}
		}
	}
	tooLong := bytes.Repeat([]byte("x"), 3<<20+1)
	for _, body := range []io.Reader{bytes.NewReader(tooLong), io.MultiReader(bytes.NewReader(tooLong))} {
		if status, got := send(body); status != 413 || !strings.Contains(string(got), "larger than the limit of 3145728 bytes") {
			t.Errorf("too long (%T): %d %s", body, status, got)
		}
	}
}

// An endpoint may answer before it has read the request, and go on reading.
func TestBothDirectionsAtOnce(t *testing.T) {
	d := open(t, gateway.Options{Remote: true, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_ = c.Flush()
		data, _ := io.ReadAll(r.Body)
		_, _ = w.Write(data)
	})}})
	body, send := io.Pipe()
	defer time.AfterFunc(patience, func() { _ = send.Close() }).Stop() // ends the test when it fails
	res, err := d.client.Do(d.request(t.Context(), body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.WriteString(send, "later")
	_ = send.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != "later" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestBrokenOff(t *testing.T) {
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	res, err := d.client.Do(d.request(t.Context(), strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the client read until %v", err)
	}
	if e := d.events.last(t, 2); e.Kind != gateway.Broken || !e.Retry || e.Bytes == 0 {
		t.Errorf("event %+v", e)
	}
}

func TestErrorInTheStream(t *testing.T) {
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n")
	})
	d.ask("{}")
	if e := d.events.last(t, 2); e.Kind != gateway.Broken || !strings.Contains(e.Message, "out of memory") || e.Failures != 1 {
		t.Errorf("event %+v", e)
	}
}

func TestFailuresAreConsecutive(t *testing.T) {
	status := make(chan int, 1)
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-status) })
	want := []int{1, 2, 0, 1}
	for i, code := range []int{500, 429, 200, 500} {
		status <- code
		d.ask("{}")
		if e := d.events.last(t, 2*(i+1)); e.Failures != want[i] {
			t.Errorf("after request %d: %d failures, want %d", i+1, e.Failures, want[i])
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	reached := false
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	d := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+"/"+key, http.StatusPermanentRedirect)
	})
	res, body := d.ask("{}")
	if res.StatusCode != 502 || res.Header.Get("Location") != "" || strings.Contains(body, key) || reached {
		t.Errorf("got %d %v %s, reached %v", res.StatusCode, res.Header, body, reached)
	}
	if e := d.events.last(t, 2); e.Kind != gateway.Rejected || !strings.Contains(e.Message, "redirects to "+elsewhere+" (308); set LLM_HOST") {
		t.Errorf("event %+v", e)
	}
}

func TestCompressedAnswers(t *testing.T) {
	encoding := make(chan string, 1)
	d := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Encoding"] = strings.Split(<-encoding, ",")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"echo":"`+key+`"}`)
		_ = z.Close()
	})
	encoding <- "gzip"
	if res, body := d.ask("{}"); res.StatusCode != 200 || body != `{"echo":"`+strings.Repeat("*", len(key))+`"}` {
		t.Errorf("gzip: %d %q", res.StatusCode, body)
	}
	for _, other := range []string{"br", "identity,gzip"} { // the second in two lines
		encoding <- other
		if res, body := d.ask("{}"); res.StatusCode != 502 || !strings.Contains(body, "gateway_error") {
			t.Errorf("%s: %d %q", other, res.StatusCode, body)
		}
	}
}

func TestKeysThatAreWordsDoNotGarbleAnswers(t *testing.T) {
	for _, word := range []string{"ollama", "not-needed", "EMPTY"} {
		text := `{"choices":"` + word + `"}`
		d := open(t, gateway.Options{Endpoint: gateway.Endpoint{APIKey: word, BaseURL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		})}})
		if _, body := d.ask("{}"); body != text {
			t.Errorf("got %s", body)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name    string
		model   string
		handler http.HandlerFunc
		want    string // part of the error; empty for none
	}{
		{"lists models", "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) }, ""},
		{"refuses the key", "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "set LLM_API_KEY"},
		{"is no model API", "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "does not answer like a model API; check LLM_HOST"},
		{"has nothing", "m", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "check LLM_HOST"},
		{"does not list, completes", "m", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method == http.MethodGet || !strings.Contains(string(body), `"model":"m"`) {
				w.WriteHeader(404)
				return
			}
			_, _ = io.WriteString(w, `{"choices":[]}`)
		}, ""},
		{"does not list, misses a model", "", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(map[string]int{"GET": 405, "POST": 400}[r.Method])
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, gateway.Options{Endpoint: gateway.Endpoint{BaseURL: serve(t, tt.handler), APIKey: key, Model: tt.model}})
			err := d.Check(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	d := open(t, gateway.Options{MaxConns: 2, Endpoint: gateway.Endpoint{BaseURL: serve(t, func(http.ResponseWriter, *http.Request) {})}})
	first, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "2 connections are open") {
		t.Errorf("a third connection: %v", err)
	}
	_ = first.Close()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if c, err := d.Dial(t.Context()); err == nil { // the server has noticed
			_ = c.Close()
			return
		}
	}
	t.Error("closing a connection made no room")
}

func TestClose(t *testing.T) {
	arrived := make(chan struct{})
	d := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	})
	idle, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		res, err := d.client.Do(d.request(t.Context(), strings.NewReader("{}")))
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	await(t, arrived)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if <-done == nil {
		t.Error("the call survived")
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("an idle connection survived")
	}
	if _, err := d.Dial(context.Background()); !errors.Is(err, gateway.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
	if e := d.events.last(t, 2); e.Kind != gateway.Aborted {
		t.Errorf("event %+v", e)
	}
}

// What comes after a body is no header that passes, and nobody has looked at it.
func TestTrailersStayInside(t *testing.T) {
	trailers := make(chan http.Header, 1)
	h := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
	}
	secure := tlsServer(t, h)
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, o := range []gateway.Options{
		{Endpoint: gateway.Endpoint{BaseURL: secure.URL, RootCAs: roots}},
		{Endpoint: gateway.Endpoint{BaseURL: serve(t, h)}, Remote: true}, // the body is not held
	} {
		d := open(t, o)
		answer := d.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer " + d.Token() +
			"\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n2\r\n{}\r\n0\r\nX-Late: secret\r\nX-Later: inside\r\n\r\n")
		if !strings.Contains(answer, " 200 ") {
			t.Fatalf("got %s", answer)
		}
		if got := <-trailers; len(got) > 0 {
			t.Errorf("%s got %v after the body", o.Endpoint.BaseURL, got)
		}
	}
}
