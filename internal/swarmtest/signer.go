package swarmtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"whorl/swarm"
)

// Signer signs in the name of a node whose id is a word and no key: with a hash, which shows
// what was signed by whom, and which anybody could make.
type Signer swarm.PeerID

// Sign is that of server.Signer.
func (s Signer) Sign(domain string, payload []byte) ([]byte, error) {
	h := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%x", string(s), domain, payload))
	return h[:], nil
}

// Verify checks signatures of Signers.
func Verify(p swarm.PeerID, domain string, payload, sig []byte) error {
	if want, _ := Signer(p).Sign(domain, payload); !bytes.Equal(sig, want) {
		return errors.New("bad signature")
	}
	return nil
}
