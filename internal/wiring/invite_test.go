package wiring

import (
	"slices"
	"strings"
	"testing"

	"whorl/swarm/invite"
	"whorl/swarm/p2p"
)

const addrOf = "/p2p/12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"

// An invitation names addresses that guests can reach: the nodes that are always there first,
// and those of this machine alone only where there are no others.
func TestInviting(t *testing.T) {
	for name, c := range map[string]struct{ joined, own, want []string }{
		"a founder in public": {nil, []string{"/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1", "/ip4/203.0.113.7/tcp/1", "/ip6/::1/tcp/1"}, []string{"/ip4/203.0.113.7/tcp/1", "/ip4/10.0.0.2/tcp/1"}},
		"joined by others":    {[]string{"/dns4/a.example/tcp/1"}, []string{"/ip4/192.168.1.5/tcp/1", "/ip4/127.0.0.1/tcp/1"}, []string{"/dns4/a.example/tcp/1", "/ip4/192.168.1.5/tcp/1"}},
		"one machine":         {[]string{"/ip4/127.0.0.1/tcp/1"}, []string{"/ip4/127.0.0.1/tcp/2", "/ip4/127.0.0.1/tcp/1"}, []string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/2"}},
		"too many":            {nil, []string{"/ip4/203.0.113.1/tcp/1", "/ip4/203.0.113.2/tcp/1", "/ip4/203.0.113.3/tcp/1", "/ip4/203.0.113.4/tcp/1", "/ip4/203.0.113.5/tcp/1"}, []string{"/ip4/203.0.113.1/tcp/1", "/ip4/203.0.113.2/tcp/1", "/ip4/203.0.113.3/tcp/1", "/ip4/203.0.113.4/tcp/1"}},
	} {
		if got := inviting(c.joined, c.own); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Flags win over what an invitation says.
func TestAcceptInvitation(t *testing.T) {
	peer, err := p2p.PackAddr("/ip4/203.0.113.7/tcp/31337" + addrOf)
	if err != nil {
		t.Fatal(err)
	}
	full := invite.Invitation{Swarm: "garden", Peers: [][]byte{peer}, UID: make([]byte, 32), Name: "owner/name", Model: "owner/name:Q4_0", Residual: "bf16", Key: []byte(strings.Repeat("k", 32))}
	word, err := full.Encode()
	if err != nil {
		t.Fatal(err)
	}
	local := full
	local.Model = ""
	home, err := local.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from  map[string]bool
		flags SwarmOptions
		args  []string
		want  string
	}{
		"all of it":       {nil, SwarmOptions{Swarm: "main"}, []string{word}, "garden [/ip4/203.0.113.7/tcp/31337" + addrOf + "] key owner/name at owner/name:Q4_0 []"},
		"other flags":     {map[string]bool{"swarm": true, "initial-peers": true}, SwarmOptions{Swarm: "mine", InitialPeers: []string{"x"}, SwarmKey: "file"}, []string{word}, "mine [x] none owner/name at owner/name:Q4_0 []"},
		"files of a path": {nil, SwarmOptions{Swarm: "main"}, []string{home, "/models/m"}, "garden [/ip4/203.0.113.7/tcp/31337" + addrOf + "] key owner/name at  [/models/m]"},
		"no files":        {nil, SwarmOptions{Swarm: "main"}, []string{home}, "garden [/ip4/203.0.113.7/tcp/31337" + addrOf + "] key owner/name at  []"},
		"no invitation":   {nil, SwarmOptions{Swarm: "main"}, []string{"owner/name"}, "main [] none  at  [owner/name]"},
	} {
		f, m := c.flags, ModelOptions{}
		args, err := f.invited(func(name string) bool { return c.from[name] }, &m, c.args)
		key := "none"
		if f.key != nil {
			key = "key"
		}
		got := strings.Join([]string{f.Swarm, "[" + strings.Join(f.InitialPeers, " ") + "]", key, m.Name, "at", m.Place, "[" + strings.Join(args, " ") + "]"}, " ")
		if (f.residual == "bf16") == (name == "no invitation") {
			t.Errorf("%s: rows %q", name, f.residual)
		}
		if err != nil || got != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", name, got, err, c.want)
		}
	}
}

// The rows that a founder chose are those of his guests, who pass them on, unless one says otherwise.
func TestInvitedRows(t *testing.T) {
	for name, c := range map[string]struct{ invited, flag, want, passed string }{
		"nobody says":         {"", "", "f32", ""},
		"the founder":         {"", "bf16", "bf16", "bf16"},
		"a guest":             {"bf16", "", "bf16", "bf16"},
		"a guest of his own":  {"bf16", "f32", "f32", ""},
		"of a later version":  {"int7", "", "", ""},
		"which a guest mends": {"int7", "bf16", "bf16", "bf16"},
	} {
		f, rows := SwarmOptions{residual: c.invited}, residualDefault
		if c.flag != "" {
			rows = c.flag
		}
		err := f.rows(func(string) bool { return c.flag != "" }, &rows)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "--residual") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || rows != c.want || f.residual != c.passed {
			t.Errorf("%s: rows %s, passed on %q, %v", name, rows, f.residual, err)
		}
	}
}
