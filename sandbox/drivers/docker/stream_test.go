package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func frame(kind byte, body string) string {
	head := [8]byte{kind}
	binary.BigEndian.PutUint32(head[4:], uint32(len(body)))
	return string(head[:]) + body
}

func TestStream(t *testing.T) {
	all := frame(frameStdout, "one ") + frame(frameStderr, "first line\nsecond ") + frame(frameStdout, "") +
		frame(frameStdout, "two") + frame(frameStderr, "line\nthird\nrest") + frame(frameDaemon, " of it")
	for name, r := range map[string]io.Reader{
		"at once":     strings.NewReader(all),
		"in bytes":    iotest.OneByteReader(strings.NewReader(all)),
		"with an end": iotest.DataErrReader(strings.NewReader(all)),
	} {
		t.Run(name, func(t *testing.T) {
			s := &stream{in: bufio.NewReader(r)}
			got, err := io.ReadAll(s)
			if string(got) != "one two" || err != nil {
				t.Errorf("stdout %q, %v", got, err)
			}
			const want = "failed; the container says: second line; third; rest of it"
			if err := s.explain(errors.New("failed")); err.Error() != want {
				t.Errorf("explained %q, want %q", err, want)
			}
		})
	}
}

func TestStreamErrors(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"cut in a head":   {"\x01\x00\x00", "unexpected EOF"},
		"cut in stdout":   {frame(frameStdout, "four")[:10], ""},
		"cut in stderr":   {frame(frameStderr, "four")[:10], ""},
		"not a container": {"HTTP/1.1 400 Bad Request", "the container's stream has a frame of unknown kind 72"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := io.ReadAll(&stream{in: bufio.NewReader(strings.NewReader(tt.in))})
			if got := errorText(err); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestStreamLongLine: a line without end costs bounded memory.
func TestStreamLongLine(t *testing.T) {
	s := &stream{in: bufio.NewReader(strings.NewReader(frame(frameStderr, strings.Repeat("x", 10*maxLine))))}
	if _, err := io.ReadAll(s); err != nil {
		t.Fatal(err)
	}
	if got := len(s.explain(io.EOF).Error()); got > (tailLines+1)*maxLine {
		t.Errorf("%d bytes are kept", got)
	}
}

func TestFollow(t *testing.T) {
	var out bytes.Buffer
	err := follow(strings.NewReader(`{"stream":"Step 1\n"}{"stream":"done\n"}`), &out)
	if err != nil || out.String() != "Step 1\ndone\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	err = follow(strings.NewReader(`{"stream":"Step 1\n"}{"errorDetail":{"message":"it broke"},"error":"it broke"}`), io.Discard)
	if err == nil || err.Error() != "it broke" {
		t.Errorf("the daemon's error: %v", err)
	}
	if err := follow(strings.NewReader("{"), io.Discard); err == nil {
		t.Error("half an answer is accepted")
	}
}
