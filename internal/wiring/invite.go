package wiring

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	ma "github.com/multiformats/go-multiaddr"

	"whorl/api"
	"whorl/internal/atomicfile"
	"whorl/swarm"
	"whorl/swarm/invite"
	"whorl/swarm/p2p"
	"whorl/tensor"
	"whorl/web"
)

// accept takes an invitation in place of MODEL: it fills in what no flag says, that of the rows
// (--residual) too. It returns the arguments that are left, MODEL among them if the invitation or the guest
// names one.
func (f *SwarmOptions) accept(given given, m *ModelOptions, residual *string, args []string) ([]string, error) {
	args, err := f.invited(given, m, args)
	if err != nil {
		return nil, err
	}
	return args, f.rows(given, residual)
}

func (f *SwarmOptions) invited(given given, m *ModelOptions, args []string) ([]string, error) {
	if len(args) == 0 || !IsInvitation(args[0]) {
		return args, nil
	}
	word, err := invitationIn(args[0])
	if err != nil {
		return nil, err
	}
	i, err := invite.Decode(word)
	if err != nil {
		return nil, Usage(err)
	}
	if !given("initial-peers") {
		for _, p := range i.Peers {
			addr, err := p2p.UnpackAddr(p)
			if err != nil {
				return nil, Usagef("%w: %w", invite.ErrBad, err)
			}
			f.InitialPeers = append(f.InitialPeers, addr)
		}
	}
	if !given("swarm") {
		f.Swarm = i.Swarm
	}
	if f.SwarmKey == "" {
		f.key = i.Key
	}
	f.residual = i.Residual
	m.invited, m.Place = hex.EncodeToString(i.UID), i.Model
	if m.Name == "" {
		m.Name = i.Name
	}
	if rest := args[1:]; len(rest) > 0 || m.Path != "" || i.Model == "" || i.UID != nil {
		return rest, nil
	}
	return []string{i.Model}, nil
}

// rows gives the flag --residual what the invitation wants, unless the guest says otherwise, and keeps it
// for the invitations of this node.
func (f *SwarmOptions) rows(given given, flag *string) error {
	if !given("residual") && f.residual != "" {
		if _, err := tensor.ParseResidual(f.residual); err != nil {
			return Usagef("the invitation wants rows between servers of a kind that this version does not know (%w): update whorl, or give --residual", err)
		}
		*flag = f.residual
	}
	if f.residual = *flag; *flag == residualDefault {
		f.residual = ""
	}
	return nil
}

// IsInvitation tells an invitation, or @FILE of one, from a MODEL.
func IsInvitation(arg string) bool { return invite.Looks(arg) || strings.HasPrefix(arg, "@") }

// maxInvitation is more than any invitation has, in bytes.
const maxInvitation = 64 << 10

// invitationIn is the word itself, or what the file of @FILE holds.
func invitationIn(arg string) (string, error) {
	path, ok := strings.CutPrefix(arg, "@")
	if !ok {
		return arg, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", Usagef("no invitation in a file: %w: a node writes one with --invitation-file FILE once it is usable", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInvitation))
	if err != nil {
		return "", Usagef("no invitation in a file: %w", err)
	}
	word := strings.TrimSpace(string(b))
	if !invite.Looks(word) {
		return "", Usagef("%s holds no invitation: that is a word that begins with %s", path, invite.Prefix)
	}
	return word, nil
}

// writeInvitation puts an invitation into a file, for the other nodes of one operator.
func (n *Node) writeInvitation(path string) error {
	i, err := n.Invite()
	if err != nil {
		return fmt.Errorf("--invitation-file: %w", err)
	}
	mode := os.FileMode(0o644)
	if i.Secret {
		mode = 0o600
	}
	if err := atomicfile.Write(path, []byte(i.Word+"\n"), mode); err != nil {
		return fmt.Errorf("--invitation-file: %w", err)
	}
	return nil
}

// maxInvitePeers is how many addresses an invitation names: enough that one is there.
const maxInvitePeers = 4

// Invite makes an invitation to the node's swarm.
func (n *Node) Invite() (api.Invitation, error) {
	st := n.Status()
	i := invite.Invitation{Swarm: n.swarm, Model: n.flags.source, Residual: n.flags.residual}
	out := api.Invitation{Swarm: n.swarm, Manifest: string(st.UID), Model: n.flags.source}
	for _, addr := range inviting(n.flags.InitialPeers, st.Addrs) {
		b, err := p2p.PackAddr(addr)
		if err != nil {
			return out, err
		}
		i.Peers, out.Peers = append(i.Peers, b), append(out.Peers, addr)
	}
	if st.Manifest != nil && st.Manifest.Pinned() {
		h, _ := st.UID.Hash()
		i.UID, i.Name = h[:], st.Manifest.Name
	}
	var err error
	if i.Key, err = n.flags.secret(); err != nil {
		return out, err
	}
	out.Secret = i.Key != nil
	out.Word, err = i.Encode()
	return out, err
}

// openInvitation is one that the node's pages may show: never of a private swarm.
func (n *Node) openInvitation() (web.Invitation, bool) {
	if n.flags.private() {
		return web.Invitation{}, false
	}
	i, err := n.Invite()
	man := n.Status().Manifest
	shared := man != nil && man.Shared()
	return web.Invitation{Word: i.Word, Model: swarm.UID(i.Manifest), Files: i.Model == "" && !shared}, err == nil && i.Manifest != ""
}

// private tells whether the swarm has a key.
func (f *SwarmOptions) private() bool { return f.SwarmKey != "" || f.key != nil }

// secret is the key of a private swarm, nil of an open one.
func (f *SwarmOptions) secret() ([]byte, error) {
	if f.SwarmKey == "" {
		return f.key, nil
	}
	return p2p.SwarmKey(f.SwarmKey)
}

// inviting chooses the addresses of an invitation: the nodes that this one joined by, which
// are always there, then its own, those first that most machines reach. Addresses of this
// machine alone are for swarms that have no others.
func inviting(joined, own []string) []string {
	own = slices.Clone(own)
	slices.SortStableFunc(own, func(a, b string) int { return reach(b) - reach(a) })
	all := slices.Concat(joined, own)
	best := 0
	for _, a := range all {
		best = max(best, reach(a))
	}
	all = slices.DeleteFunc(all, func(a string) bool { return reach(a) == 0 && best > 0 })
	var out []string
	for _, a := range all {
		if !slices.Contains(out, a) && len(out) < maxInvitePeers {
			out = append(out, a)
		}
	}
	return out
}

// reach says who reaches an address: 2 everybody, 1 a private network, 0 this machine.
func reach(addr string) int {
	a, err := ma.NewMultiaddr(addr)
	if err != nil {
		return 0
	}
	for _, code := range []int{ma.P_IP4, ma.P_IP6} {
		if text, err := a.ValueForProtocol(code); err == nil {
			ip, err := netip.ParseAddr(text)
			switch {
			case err != nil || ip.IsLoopback() || ip.IsUnspecified():
				return 0
			case ip.IsPrivate() || ip.IsLinkLocalUnicast():
				return 1
			}
		}
	}
	return 2 // names, too
}
