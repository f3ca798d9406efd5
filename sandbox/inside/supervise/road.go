package supervise

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// The streams of doors and roads, which the supervisor opens. All but connections are
// questions that one header answers, with an Error for no.
const (
	doorStream     = "door"
	roadStream     = "road"     // a connection to Host and Port
	knownStream    = "known"    // whether Host, at Port or any, is known
	loopbackStream = "loopback" // which addresses of the host itself are
	takenStream    = "taken"    // that something inside listens at one of them
)

// Resolver is the address at which names are answered inside, at port 53.
const Resolver = "127.0.0.53"

// resolverNumber is the resolver's port.
const resolverNumber = 53

// questionTime bounds the answer to a question.
const questionTime = 10 * time.Second

// roadBuffer is the size of the buffers of a road, which may have many connections.
const roadBuffer = 32 << 10

var errUnknown = errors.New("not known")

// takeRoad answers a stream that is no door's: with a connection, or at once.
func (h *Host) takeRoad(ctx context.Context, stream *yamux.Stream, hd header) (net.Conn, error) {
	if h.road == nil {
		return nil, &net.AddrError{Err: "no road", Addr: hd.Host}
	}
	var answer header
	switch hd.Stream {
	case roadStream:
		// It takes as long as a person needs to answer, and ends with the program's patience.
		return h.road.DialHost(ctx, hd.Host, hd.Port)
	case knownStream:
		ctx, cancel := context.WithTimeout(ctx, questionTime)
		defer cancel()
		if !h.road.Known(ctx, hd.Host, hd.Port) {
			answer.Error = errUnknown.Error()
		}
	case loopbackStream:
		answer.Addresses = h.road.Loopback()
	case takenStream:
		for _, at := range hd.Addresses {
			h.road.Taken(at)
		}
	}
	_ = writeHeader(stream, answer)
	return nil, nil
}
