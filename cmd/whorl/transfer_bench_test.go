package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/internal/meter"
	"whorl/model/hub"
	"whorl/swarm"
	"whorl/swarm/p2p"
	"whorl/swarm/share"
	"whorl/swarm/wire"
)

// BenchmarkTransfer passes a file on over loopback as servers do, in turns with the same bytes
// through one socket with TLS 1.3 and SHA-256 at the receiver: both ends in this process. ratio
// is the median of the pairs' speeds. "disk" writes what comes into the cache, as nodes do, and
// file-ratio is against a socket whose bytes are written to a file and put on the disk in the end;
// "20mbit" sends both through a link of that rate.
func BenchmarkTransfer(b *testing.B) {
	for _, x := range []struct {
		name string
		mib  int
		link int64 // bytes a second; 0 for any
		disk bool
	}{{"memory", 256, 0, false}, {"disk", 256, 0, true}, {"20mbit", 12, 20e6 / 8, false}} {
		b.Run(x.name, func(b *testing.B) {
			data := make([]byte, x.mib<<20)
			rand.NewChaCha8([32]byte{}).Read(data)
			path := filepath.Join(b.TempDir(), "file")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				b.Fatal(err)
			}
			var fileRatios, ratios, speeds, cpus, tlsSpeeds, tlsCPUs []float64
			pass := func(f func(b *testing.B)) (mibs, cpu float64) {
				began := time.Now()
				worked := meter.Worked(b, func() { f(b) })
				return float64(x.mib) / time.Since(began).Seconds(), worked.Seconds() * 1024 / float64(x.mib)
			}
			for b.Loop() {
				direct := newSocket(b, path, x.link, "")
				peers := newPair(b, path, x.link, x.disk)
				v, c := pass(direct)
				sv, sc := pass(peers)
				if x.disk {
					fv, _ := pass(newSocket(b, path, x.link, filepath.Join(b.TempDir(), "file")))
					fileRatios = append(fileRatios, sv/fv)
				}
				ratios, tlsSpeeds, tlsCPUs, speeds, cpus = append(ratios, sv/v), append(tlsSpeeds, v), append(tlsCPUs, c), append(speeds, sv), append(cpus, sc)
			}
			median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "ratio")
			if x.disk {
				b.ReportMetric(median(fileRatios), "file-ratio")
			}
			b.ReportMetric(median(speeds), "MiB/s")
			b.ReportMetric(median(cpus), "cpu-s/GiB")
			b.ReportMetric(median(tlsSpeeds), "tls-MiB/s")
			b.ReportMetric(median(tlsCPUs), "tls-cpu-s/GiB")
		})
	}
}

// linked is the address of a proxy to another one, which lets so many bytes a second through
// from there; without a rate it is the address itself.
func linked(b *testing.B, to string, rate int64) string {
	if rate == 0 {
		return to
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	pace := share.NewPace(rate, nil)
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go func() { io.Copy(far, near); far.Close() }()
			go func() {
				defer near.Close()
				buf := make([]byte, 16<<10)
				for {
					n, err := far.Read(buf)
					if n > 0 {
						pace.Wait(context.Background(), n)
						near.Write(buf[:n])
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// newSocket makes a TLS server of a file; the function fetches and hashes all of it, and writes it
// to another file unless that is "".
func newSocket(b *testing.B, path string, rate int64, into string) func(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(crand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, MinVersion: tls.VersionTLS13})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f, err := os.Open(path)
				if err != nil {
					return
				}
				defer f.Close()
				io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{f}, make([]byte, 256<<10))
			}()
		}
	}()
	at := linked(b, l.Addr().String(), rate)
	return func(b *testing.B) {
		c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		to := io.Writer(sha256.New())
		if into != "" {
			f, err := os.Create(into)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			defer f.Sync()
			to = io.MultiWriter(to, f)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{c}, make([]byte, 256<<10)); err != nil {
			b.Fatal(err)
		}
	}
}

// newPair makes two nodes, of which one has a file; the function has the other fetch it.
func newPair(b *testing.B, path string, rate int64, disk bool) func(b *testing.B) {
	host := func() *p2p.Host {
		h, err := p2p.New(p2p.Config{HostMaddrs: []string{"/ip4/127.0.0.1/tcp/0"}, Agent: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { h.Close() })
		return h
	}
	from, to := host(), host()
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	o, hashes, err := share.HashObject(b.Context(), f, st.Size())
	if err != nil {
		b.Fatal(err)
	}
	store := new(share.Store)
	if err := store.Add(o, hashes, allOf{f}); err != nil {
		b.Fatal(err)
	}
	srv, err := share.NewServer(share.ServerConfig{Self: from.ID(), Swarm: "bench", Store: store})
	if err != nil {
		b.Fatal(err)
	}
	from.Handle(wire.ProtoShare, srv.Serve)
	words := strings.Split(from.ListenAddrs()[0], "/") // "", ip4, IP, tcp, PORT
	_, at, err := net.SplitHostPort(linked(b, net.JoinHostPort(words[2], words[4]), rate))
	if err != nil {
		b.Fatal(err)
	}
	to.AddAddrs(from.ID(), []string{"/ip4/127.0.0.1/tcp/" + at})
	if _, err := to.Ping(b.Context(), from.ID()); err != nil {
		b.Fatal(err)
	}
	cfg := share.DefaultClient()
	cfg.Self, cfg.Swarm, cfg.Dial = to.ID(), "bench", to.Dial
	cfg.Sources = func() []swarm.PeerID { return []swarm.PeerID{from.ID()} }
	c, err := share.NewClient(cfg)
	if err != nil {
		b.Fatal(err)
	}
	if !disk {
		return func(b *testing.B) {
			want := make([]int, o.Pieces())
			for i := range want {
				want[i] = i
			}
			if err := c.Fetch(b.Context(), o, hashes, want, func(int, []byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	}
	h := hub.New(hub.Config{Cache: b.TempDir()})
	snap, err := h.OpenTrees(b.Context(), o.Root.String()[:40], []hub.File{{Path: "model.gguf", Size: o.Size, Hash: o.Root.String(), Tree: true}},
		func(ctx context.Context, _ hub.File, chunks []int, write hub.Write) error {
			return c.Fetch(ctx, o, hashes, chunks, func(i int, data []byte) error { return write(i, hashes[i], data) })
		})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { snap.Close() })
	return func(b *testing.B) {
		if err := snap.FillAll(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// allOf is a file of which all is here.
type allOf struct{ *os.File }

func (allOf) Has(int) bool { return true }
