package p2p

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/pnet"

	"whorl/internal/atomicfile"
	"whorl/internal/sharedfile"
	"whorl/swarm"
)

// identity is a key and, if it lies in a file, the lock that keeps a second process on
// this machine from using it.
type identity struct {
	key  crypto.PrivKey
	lock *os.File
}

func (i *identity) close() {
	if i.lock != nil {
		i.lock.Close()
	}
}

// openIdentity reads the key in a file, or makes one and writes it there with mode 0600.
func openIdentity(path string) (*identity, error) {
	if path == "" {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		return &identity{key: key}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = writeKey(path)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &identity{key, lock}, nil
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	held, err := sharedfile.Lock(f, sharedfile.Exclusive)
	if err == nil && held {
		return f, nil
	}
	f.Close()
	if err == nil {
		return nil, fmt.Errorf("%w: another process holds %s: give this node its own with --identity-path", ErrIdentityInUse, path)
	}
	return nil, fmt.Errorf("identity: %w", err)
}

func readKey(path string) (crypto.PrivKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("identity: %s holds no private key (%v): move it away to get a new identity", path, err)
	}
	return key, nil
}

// writeKey makes a key and writes it: a crash leaves a whole file or none.
func writeKey(path string) (crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, b, 0o600); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return key, nil
}

// SwarmKey reads a pre-shared key file: 32 bytes.
func SwarmKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("swarm key: %w", err)
	}
	defer f.Close()
	psk, err := pnet.DecodeV1PSK(f)
	if err != nil {
		return nil, fmt.Errorf("swarm key: %s is no /key/swarm/psk/1.0.0/ file: %w", path, err)
	}
	return psk, nil
}

// Sign signs a payload for one purpose, so that a signature cannot be moved to another.
func (h *Host) Sign(domain string, payload []byte) ([]byte, error) {
	return h.id.key.Sign(signed(domain, payload))
}

// Verify checks a signature of a peer, whose id holds its public key.
func (*Host) Verify(p swarm.PeerID, domain string, payload, sig []byte) error {
	return Verify(p, domain, payload, sig)
}

// Verify is Host.Verify for those without a host.
func Verify(p swarm.PeerID, domain string, payload, sig []byte) error {
	if err := CheckID(p); err != nil {
		return err
	}
	id, err := peer.Decode(string(p))
	if err != nil {
		return err
	}
	key, err := id.ExtractPublicKey()
	if err != nil {
		return fmt.Errorf("peer %s: its id holds no public key: %w", p.Short(), err)
	}
	ok, err := key.Verify(signed(domain, payload), sig)
	if err != nil || !ok {
		return fmt.Errorf("peer %s: bad signature", p.Short())
	}
	return nil
}

func signed(domain string, payload []byte) []byte {
	return append([]byte("whorl:"+domain+"\x00"), payload...)
}
