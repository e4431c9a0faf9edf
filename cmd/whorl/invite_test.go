package main

import (
	"testing"

	"whorl/swarm/invite"
)

// What is no invitation is refused.
func TestWrongInvitations(t *testing.T) {
	full := invite.Invitation{Swarm: "garden", Peers: [][]byte{[]byte("x")}, UID: make([]byte, 32), Name: "owner/name"}
	word, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"join"}, {"join", "owner/name"}, {"join", word[:len(word)-1]}, {"chat", word + "a"}, {"invite", "--admin", "127.0.0.1:1"}} {
		if r := whorl(t, "", nil, args...); r.code == exitDone {
			t.Errorf("%q: exit %d", args, r.code)
		}
	}
}
