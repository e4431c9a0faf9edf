// Package keys holds the keys that callers of a node's HTTP listeners show: who they are, what
// they may do, how much, and until when. A Book keeps them, in a file or elsewhere; a Ring is
// what requests are held against. Of a key's secret only its SHA-256 is kept: whoever reads a
// book can show none. It knows no HTTP.
package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Scope is a kind of thing that a key allows.
type Scope string

// All scopes. Operate includes read; Admin includes all.
const (
	Read    Scope = "read"    // look at the node
	Infer   Scope = "infer"   // generate, score, embed
	Operate Scope = "operate" // drain, move, ban
	Admin   Scope = "admin"   // settings, logs, invitations, keys
)

// Scopes are all of them, least first.
func Scopes() []Scope { return []Scope{Read, Infer, Operate, Admin} }

// Convert makes scopes of the texts that others have for them, or such texts of scopes.
func Convert[To, From ~string](from []From) []To {
	to := make([]To, len(from))
	for i, s := range from {
		to[i] = To(s)
	}
	return to
}

// Bounds of a book.
const (
	MaxKeys = 10_000
	maxName = 64
	maxRate = 1_000_000_000
	prefix  = "whorl_"
)

// Limits are what one key may use of one node. 0 is no limit.
type Limits struct {
	Requests int `json:"requests_per_minute,omitempty"`
	Tokens   int `json:"tokens_per_minute,omitempty"` // of prompts and answers together
	Answers  int `json:"answers,omitempty"`           // at a time
}

// Key is one caller's.
type Key struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"` // no two keys of a book have one name
	Scopes []Scope `json:"scopes"`
	Hash   string  `json:"sha256"` // of the secret, in hexadecimal digits
	Limits
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Used    time.Time `json:"used,omitzero"` // last, to a minute or so
}

// Book keeps keys. Safe for concurrent use, also by several processes.
type Book interface {
	// List is in the order of names.
	List(ctx context.Context) ([]Key, error)
	// Version is a text that another follows where a key was added, removed or changed: while it stays, List
	// tells nothing new but when keys were used.
	Version(ctx context.Context) (string, error)
	// Add refuses a key whose name is taken (ErrTaken) and more than MaxKeys.
	Add(ctx context.Context, k Key) error
	// Remove takes an id or a name, and is false if no key has it.
	Remove(ctx context.Context, which string) (bool, error)
	// Touch notes when keys were used last, by id.
	Touch(ctx context.Context, used map[string]time.Time) error
}

// ErrTaken says that there is a key of that name.
var ErrTaken = errors.New("there is a key of that name: remove it first, or choose another name")

// ErrMany says that the book is full.
var ErrMany = fmt.Errorf("there are %d keys, the most there may be: remove some", MaxKeys)

// New makes a key. Nobody can tell the secret from it.
func New(name string, scopes []Scope, l Limits, now, expires time.Time) (k Key, secret string, err error) {
	secret = prefix + rand.Text()
	hash := hashOf(secret)
	k = Key{
		ID: "key_" + hash[:12], Name: name, Scopes: scopes, Hash: hash, Limits: l,
		Created: now.UTC().Truncate(time.Second), Expires: expires.UTC().Truncate(time.Second),
	}
	if expires.IsZero() {
		k.Expires = time.Time{}
	} else if !k.Expires.After(now) {
		return Key{}, "", errors.New("the key would have expired already: give a time to come")
	}
	return k, secret, k.Validate()
}

// Validate tells what is wrong with a key.
func (k *Key) Validate() error {
	if k.Name == "" || utf8.RuneCountInString(k.Name) > maxName || strings.TrimSpace(k.Name) != k.Name || !utf8.ValidString(k.Name) ||
		strings.ContainsFunc(k.Name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(k.Name, "key_") {
		return fmt.Errorf("the name %q: want 1 to %d characters that can be printed, without blanks around them, and not beginning with key_", clip(k.Name), maxName)
	}
	if len(k.Scopes) == 0 || len(k.Scopes) > len(Scopes()) {
		return fmt.Errorf("a key needs a scope: %s", scopeNames())
	}
	for _, s := range k.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fmt.Errorf("the scope %q is unknown: want some of %s", clip(string(s)), scopeNames())
		}
	}
	for _, n := range []int{k.Requests, k.Tokens, k.Answers} {
		if n < 0 || n > maxRate {
			return fmt.Errorf("a limit of %d: want 1 to %d, or 0 for none", n, maxRate)
		}
	}
	if b, err := hex.DecodeString(k.Hash); err != nil || len(b) != sha256.Size || k.ID != "key_"+k.Hash[:12] {
		return fmt.Errorf("key %q: its hash or its id is broken", clip(k.Name))
	}
	return nil
}

func scopeNames() string {
	return strings.Join(Convert[string](Scopes()), ", ")
}

// May tells whether the key allows what needs a scope.
func (k *Key) May(need Scope) bool {
	return slices.ContainsFunc(k.Scopes, func(s Scope) bool {
		return s == need || s == Admin || s == Operate && need == Read
	})
}

func hashOf(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// clip keeps what strangers wrote short.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
