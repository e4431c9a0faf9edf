// Package invite writes all that a newcomer needs to find a swarm and its model as one word,
// whorl1..., that survives being pasted, read aloud in parts and typed: lower-case letters
// and digits, with a checksum. It reads no network and no files, and knows nothing of what
// an address means.
package invite

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Invitation to a swarm.
type Invitation struct {
	Swarm string // its name
	// Peers are addresses of nodes that are always there, as binary multiaddrs that end with
	// the peer's id.
	Peers [][]byte
	// UID is the hash of the manifest of the model to serve or to use: all of its contents
	// can be checked by it. nil for a swarm of several models.
	UID  []byte
	Name string // of the model, as the manifest has it; "" where there is no UID
	// Model is where the model's files may be fetched, such as owner/name:Q4_K_M at a hub; "" if
	// the guest must have them. The UID says whether they are right.
	Model string
	// Residual is how the swarm's founder wants rows to travel between blocks, as --residual has it; ""
	// where guests do as they like.
	Residual string
	// Key opens a private swarm; nil for an open one. With it the word is a secret.
	Key []byte
}

// Prefix begins every invitation of this form.
const Prefix = "whorl1"

// Limits of an invitation.
const (
	MaxText  = 4096 // characters
	MaxPeers = 16
	maxName  = 64
	maxPeer  = 256
	maxModel = 512
	maxMode  = 16
	hashSize = 32
	keySize  = 32
	sumSize  = 4
)

// The members, each written as its tag, its length and its bytes. Readers pass over tags
// that they do not know.
const (
	tagSwarm = iota + 1
	tagPeer
	tagUID
	tagKey
	tagModel
	tagName
	tagResidual
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ErrBad marks a text that is no invitation.
var ErrBad = errors.New("not an invitation")

func bad(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, a...))
}

func sum(b []byte) []byte {
	h := sha256.Sum256(append([]byte("whorl invitation "), b...))
	return h[:sumSize]
}

// check refuses what no honest founder writes.
func (i *Invitation) check() error {
	switch {
	case i.Swarm == "" || len(i.Swarm) > maxName:
		return bad("a swarm's name of %d bytes, want 1 to %d", len(i.Swarm), maxName)
	case len(i.Peers) == 0 || len(i.Peers) > MaxPeers:
		return bad("%d addresses, want 1 to %d", len(i.Peers), MaxPeers)
	case i.UID != nil && len(i.UID) != hashSize:
		return bad("a manifest's hash of %d bytes, want %d", len(i.UID), hashSize)
	case len(i.Name) > maxModel:
		return bad("a model's name of %d bytes, at most %d", len(i.Name), maxModel)
	case len(i.Model) > maxModel:
		return bad("a model's place of %d bytes, at most %d", len(i.Model), maxModel)
	case len(i.Residual) > maxMode:
		return bad("a kind of rows of %d bytes, at most %d", len(i.Residual), maxMode)
	case i.Key != nil && len(i.Key) != keySize:
		return bad("a swarm key of %d bytes, want %d", len(i.Key), keySize)
	}
	for _, p := range i.Peers {
		if len(p) == 0 || len(p) > maxPeer {
			return bad("an address of %d bytes, want 1 to %d", len(p), maxPeer)
		}
	}
	return nil
}

// Encode writes the word.
func (i *Invitation) Encode() (string, error) {
	if err := i.check(); err != nil {
		return "", err
	}
	var b []byte
	add := func(tag byte, v []byte) {
		b = binary.AppendUvarint(append(b, tag), uint64(len(v)))
		b = append(b, v...)
	}
	add(tagSwarm, []byte(i.Swarm))
	for _, p := range i.Peers {
		add(tagPeer, p)
	}
	if i.UID != nil {
		add(tagUID, i.UID)
	}
	if i.Model != "" {
		add(tagModel, []byte(i.Model))
	}
	if i.Name != "" {
		add(tagName, []byte(i.Name))
	}
	if i.Residual != "" {
		add(tagResidual, []byte(i.Residual))
	}
	if i.Key != nil {
		add(tagKey, i.Key)
	}
	text := Prefix + alphabet.EncodeToString(append(b, sum(b)...))
	if len(text) > MaxText {
		return "", bad("%d characters, at most %d: name fewer addresses", len(text), MaxText)
	}
	return text, nil
}

// Looks tells whether a text is meant as an invitation, right or not.
func Looks(text string) bool {
	return len(text) > len(Prefix) && strings.EqualFold(text[:len(Prefix)], Prefix) && !strings.ContainsAny(text, "/.:\\")
}

// Decode reads the word, in capitals too. The error says if it was copied wrongly.
func Decode(text string) (*Invitation, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	rest, ok := strings.CutPrefix(text, Prefix)
	switch {
	case len(text) > MaxText:
		return nil, bad("%d characters, at most %d", len(text), MaxText)
	case !ok:
		return nil, bad("it does not begin with %s", Prefix)
	}
	b, err := alphabet.DecodeString(rest)
	if err != nil || len(b) < sumSize || alphabet.EncodeToString(b) != rest {
		return nil, bad("it holds characters that no invitation has, or some are missing: copy it again, whole")
	}
	b, have := b[:len(b)-sumSize], b[len(b)-sumSize:]
	if string(sum(b)) != string(have) {
		return nil, bad("its checksum is wrong: a character was changed or lost; copy it again, whole")
	}
	i := new(Invitation)
	for len(b) > 0 {
		tag := b[0]
		n, k := binary.Uvarint(b[1:])
		if k <= 0 || n > uint64(len(b)-1-k) {
			return nil, bad("a member ends behind its end")
		}
		v := b[1+k : 1+k+int(n)]
		b = b[1+k+int(n):]
		switch tag {
		case tagSwarm:
			i.Swarm = string(v)
		case tagPeer:
			if len(i.Peers) == MaxPeers {
				return nil, bad("more than %d addresses", MaxPeers)
			}
			i.Peers = append(i.Peers, v)
		case tagUID:
			i.UID = v
		case tagModel:
			i.Model = string(v)
		case tagName:
			i.Name = string(v)
		case tagResidual:
			i.Residual = string(v)
		case tagKey:
			i.Key = v
		}
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	return i, nil
}
