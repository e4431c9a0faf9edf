//go:build linux && e2e

package natlab

import (
	"encoding/json"
	"fmt"

	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A router of the kernel with miniupnpd, the program in many homes, between two namespaces: a home
// and the outside. The laboratory's own routers answer nobody who asks for ports.
const (
	homeIP, routerIP   = "192.168.77.2", "192.168.77.1"
	outerIP, outsideIP = "20.9.0.1", "20.9.0.2"
)

// sh runs a command, and skips the test where this machine cannot.
func sh(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Skipf("not proven: port mapping on a router: %s: %v: %s", line, err, out)
	}
	return string(out)
}

// home makes the three namespaces and starts miniupnpd, which speaks UPnP alone or, with pmp,
// NAT-PMP alone.
func home(t *testing.T, pmp bool) (inside, outside, router *Host) {
	t.Helper()
	lab(t)
	for _, program := range []string{"miniupnpd", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("not proven: port mapping on a router, since %s is not installed (apt-get install miniupnpd-nftables nftables)", program)
		}
	}
	names := [3]string{}
	for i, n := range []string{"home", "router", "outside"} {
		name := fmt.Sprintf("whorl-%s-%d", n, os.Getpid())
		sh(t, "ip netns add "+name)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
		sh(t, "ip -n "+name+" link set lo up")
		names[i] = name
	}
	in, rt, out := names[0], names[1], names[2]
	join := func(a, aIP, b, bIP, link string) {
		sh(t, fmt.Sprintf("ip -n %s link add %s0 type veth peer name %s1 netns %s", a, link, link, b))
		for _, end := range [][3]string{{a, link + "0", aIP}, {b, link + "1", bIP}} {
			sh(t, fmt.Sprintf("ip -n %s addr add %s/24 dev %s", end[0], end[2], end[1]))
			sh(t, fmt.Sprintf("ip -n %s link set %s up", end[0], end[1]))
		}
	}
	join(in, homeIP, rt, routerIP, "lan")
	join(rt, outerIP, out, outsideIP, "wan")
	sh(t, "ip -n "+in+" route add default via "+routerIP)
	sh(t, "ip netns exec "+rt+" sysctl -qw net.ipv4.ip_forward=1")
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.nft")
	drop := ""
	if pmp {
		drop = "udp dport 1900 drop;"
	}
	os.WriteFile(rules, []byte(`table inet filter {
	chain input { type filter hook input priority 0; `+drop+` }
	chain forward {
		type filter hook forward priority 0; policy drop;
		ct state established,related accept
		iifname "lan1" accept
		jump miniupnpd
	}
	chain miniupnpd {}
	chain prerouting { type nat hook prerouting priority -100; jump prerouting_miniupnpd; }
	chain postrouting {
		type nat hook postrouting priority 100;
		jump postrouting_miniupnpd
		oifname "wan0" masquerade
	}
	chain prerouting_miniupnpd {}
	chain postrouting_miniupnpd {}
}
`), 0o600)
	sh(t, "ip netns exec "+rt+" nft -f "+rules)
	conf := filepath.Join(dir, "miniupnpd.conf")
	os.WriteFile(conf, []byte(`ext_ifname=wan0
listening_ip=lan1
enable_natpmp=`+map[bool]string{false: "no", true: "yes"}[pmp]+`
enable_upnp=yes
secure_mode=yes
upnp_table_name=filter
upnp_nat_table_name=filter
upnp_forward_chain=miniupnpd
upnp_nat_chain=prerouting_miniupnpd
upnp_nat_postrouting_chain=postrouting_miniupnpd
uuid=fc4ec57e-b051-11db-88f8-0060085db3f6
allow 1024-65535 192.168.77.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
`), 0o600)
	log := filepath.Join(dir, "miniupnpd.log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", rt, "miniupnpd", "-d", "-f", conf, "-P", filepath.Join(dir, "pid"))
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Skipf("not proven: port mapping on a router: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if b, _ := os.ReadFile(log); t.Failed() {
			t.Logf("miniupnpd:\n%s", b)
		}
	})
	return named(in), named(out), named(rt)
}

// named is a host in a namespace that has a name.
func named(ns string) *Host { return &Host{Spec: Spec{Name: ns}, ns: ns} }

// A server behind a router that forwards ports on request asks for both of its ports, is found
// there by strangers, says so, and gives both back when it ends: over UPnP and over NAT-PMP.
func TestPortMapping(t *testing.T) {
	for _, pmp := range []bool{false, true} {
		t.Run(map[bool]string{false: "UPnP", true: "NAT-PMP"}[pmp], func(t *testing.T) {
			inside, outside, router := home(t, pmp)
			boot, file := outside.launchAs(t, "bootstrap", "--new-swarm", "--log-level", "debug", "--no-port-mapping")
			boot.ready(t, outside, file)
			var peers []string
			for _, a := range boot.Addrs {
				if strings.Contains(a, "/tcp/") && strings.Contains(a, outsideIP) {
					peers = append(peers, a)
				}
			}
			srv, file := inside.launchAs(t, "serve", toy, "--model-name", "m", "--throughput", "100", "--http", "off", "--admin", "127.0.0.1:8301", "--mean-block-selection-delay", "0",
				"--block-indices", "0:8", "--log-level", "debug", "--initial-peers", strings.Join(peers, ","))
			srv.ready(t, inside, file)
			forwarded := func() (n int) {
				return strings.Count(sh(t, "ip netns exec "+router.ns+" nft list chain inet filter prerouting_miniupnpd"), "dnat")
			}
			var reach struct {
				Reach struct {
					State  string
					Mapped []string
				}
			}
			for late := time.Now().Add(patience); ; <-time.After(200 * time.Millisecond) {
				text := sh(t, "ip netns exec "+inside.ns+" curl -s http://127.0.0.1:8301/api/v1/node")
				if json.Unmarshal([]byte(text), &reach) == nil && len(reach.Reach.Mapped) == 2 && reach.Reach.State == "reachable" && forwarded() == 2 {
					break
				}
				if time.Now().After(late) {
					t.Fatalf("the node says %s, and %d ports are forwarded", text, forwarded())
				}
			}
			a, err := outside.answered(t, ask("m", tokens, peers))
			same(t, a, err, alone(t, tokens))
			if !strings.HasPrefix(a.how, "direct") {
				t.Errorf("from outside it is reached %s", a.how)
			}
			srv.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-srv.done:
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			for late := time.Now().Add(30 * time.Second); forwarded() > 0; <-time.After(50 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("%d ports are still forwarded to a node that has ended", forwarded())
				}
			}
			t.Logf("%v were forwarded", reach.Reach.Mapped)
		})
	}
}
