package dir

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"whorl/swarm/budget"
)

// The DHT library takes messages of 4 MiB and reserves them when they are announced; a node
// asks and answers in some kilobytes. It keeps a stream for a minute between messages, and
// puts no bound on how many it has.
const (
	maxQuestion   = 64 << 10  // bytes of a message to this node
	maxReply      = 512 << 10 // bytes of an answer to this node
	dhtStreams    = 256       // of all peers
	maxVarintBits = 35
)

// narrowHost is the host as the DHT sees it: its streams carry no large messages, and their
// number is a budget.
type narrowHost struct {
	host.Host
	streams *budget.Pool
	net     func(ma.Multiaddr) string // the prefix of an address
}

// SetStreamHandler answers streams that peers open.
func (h *narrowHost) SetStreamHandler(pid protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(pid, func(s network.Stream) {
		who := budget.Who{Peer: string(s.Conn().RemotePeer()), Net: h.net(s.Conn().RemoteMultiaddr())}
		if h.streams.Take(1, who) != nil {
			s.Reset()
			return
		}
		defer h.streams.Give(1, who)
		f(&narrow{Stream: s, most: maxQuestion})
	})
}

// NewStream opens a stream to a peer.
func (h *narrowHost) NewStream(ctx context.Context, p peer.ID, pids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, p, pids...)
	if err != nil {
		return nil, err
	}
	return &narrow{Stream: s, most: maxReply}, nil
}

// narrow is a stream of messages, each behind its length as a varint, that ends where a
// message is announced to be longer than most.
type narrow struct {
	network.Stream
	most uint64
	left uint64 // bytes of the present message still to come
	size uint64 // of the next one, as far as it was read
	bits uint
}

var errLarge = errors.New("a message of the DHT is too large")

func (s *narrow) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if large := s.pass(p[:n]); large != nil {
		s.Reset()
		return 0, large
	}
	return n, err
}

// pass follows the messages in what was read.
func (s *narrow) pass(p []byte) error {
	for len(p) > 0 {
		if s.left > 0 {
			n := min(s.left, uint64(len(p)))
			s.left -= n
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		s.size |= uint64(b&0x7f) << s.bits
		if s.bits += 7; s.size > s.most || s.bits > maxVarintBits {
			return errLarge
		}
		if b < 0x80 {
			s.left, s.size, s.bits = s.size, 0, 0
		}
	}
	return nil
}
