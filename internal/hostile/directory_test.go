package hostile

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// dht is the protocol of the library's table.
const dht = "/whorl/main/kad/1.0.0"

// The library of the DHT reserves messages of 4 MiB as soon as they are announced; here such
// a message ends its stream.
func TestAnnouncedMessagesOfTheDHT(t *testing.T) {
	w := New(t, Options{})
	s := w.Stranger("")
	w.Within(32<<20, func() {
		w.Honest(func() {
			for range 96 {
				c, err := s.Open(w.Servers[0], dht)
				if err != nil {
					continue
				}
				t.Cleanup(func() { c.Reset() })
				c.SetDeadline(time.Now().Add(time.Second))
				c.Write(binary.AppendUvarint(nil, 4<<20))
				c.Write(make([]byte, 32<<10))
			}
			<-time.After(300 * time.Millisecond)
		})
	})
}

// A peer may say that it provides whatever it likes; a node remembers some of it.
func TestProvidesEverything(t *testing.T) {
	w := New(t, Options{})
	s := w.Stranger("")
	id, err := peer.Decode(string(s.Host.ID()))
	if err != nil {
		t.Fatal(err)
	}
	var addrs []ma.Multiaddr
	for i := range 64 {
		addrs = append(addrs, ma.StringCast(fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", 1000+i)))
	}
	const messages = 12_000
	w.Within(3<<20, func() {
		w.Honest(func() {
			c, err := s.Open(w.Servers[0], dht)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Reset()
			c.SetDeadline(time.Now().Add(time.Minute))
			key := make([]byte, 80)
			for i := range messages {
				binary.LittleEndian.PutUint32(key, uint32(i))
				m := pb.NewMessage(pb.Message_ADD_PROVIDER, key, 0)
				m.ProviderPeers = pb.RawPeerInfosToPBPeers([]peer.AddrInfo{{ID: id, Addrs: addrs}})
				b, err := proto.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...)); err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			// An answer says that all before it were taken in.
			ask, _ := proto.Marshal(pb.NewMessage(pb.Message_PING, nil, 0))
			c.Write(append(binary.AppendUvarint(nil, uint64(len(ask))), ask...))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Errorf("the table does not answer after it: %v", err)
			}
		})
	})
}

// Many identities that come for a moment, from an address that nothing is known of, leave
// nothing behind and keep no newcomer out. WHORL_IDENTITIES says how many (make hostile).
func TestShortIdentities(t *testing.T) {
	count := 40
	if n, err := strconv.Atoi(os.Getenv("WHORL_IDENTITIES")); err == nil {
		count = n
	}
	w := New(t, Options{Host: func(c *p2p.Config) { c.Exempt = []netip.Prefix{} }})
	at, good := w.Bootstrap, w.everything(w.Servers[0])
	w.Within(int64(32<<20+count<<15), func() {
		w.Honest(func() {
			var all sync.WaitGroup
			turns := make(chan struct{}, 8)
			for i := range count {
				turns <- struct{}{}
				all.Go(func() {
					defer func() { <-turns }()
					s := w.passing("127.0.7.7")
					for j := range 6 {
						if c, err := s.Open(at, good[j%3].id); err == nil {
							c.Write(broken(newRand(i, j), good[j%3].good, good[j%3].first))
							c.Reset()
						}
					}
					s.Host.Close()
				})
			}
			all.Wait()
		})
	})
	newcomer := w.Stranger("127.1.2.3")
	c, err := newcomer.Open(at, wire.ProtoDirectory)
	if err != nil {
		t.Fatalf("a newcomer after %d identities: %v", count, err)
	}
	c.Reset()
}
