package main

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"whorl/internal/meter"
)

// BenchmarkAudits measures what audits cost, in processor time of all nodes, which are in this process:
// price is that of the audit of a session by the session itself, of pairs of users in turns, one whose
// gateway audits all and one whose gateway audits nobody. steady-% is what the default rate of 0.01
// makes of it.
func BenchmarkAudits(b *testing.B) {
	model := realModel(b)
	server := func(more ...string) *benched {
		return benchNode(b, append([]string{"serve", model, "--http", "off", "--block-indices", "0:30", "--throughput", "100", "--attn-cache-tokens", "4096", "--threads", "1"}, more...)...)
	}
	first := server("--new-swarm")
	server("--initial-peers", first.Addrs[0])
	gateway := func(rate string) *benched {
		return benchNode(b, "gateway", model, "--http", "127.0.0.1:0", "--initial-peers", first.Addrs[0], "--audit", rate)
	}
	all, nobody := gateway("1"), gateway("0")
	total := regexp.MustCompile(`(?m)^whorl_audits_total\{result="(\w+)"\} (\d+)`)
	audited := func() (agreed int) {
		for _, m := range total.FindAllStringSubmatch(string(all.ask("GET", all.Admin+"/metrics", "")), -1) {
			n, _ := strconv.Atoi(m[2])
			if m[1] == "agreed" {
				agreed = n
			} else if n > 0 && m[1] != "skipped" {
				b.Fatalf("%d audits with the result %s", n, m[1])
			}
		}
		return agreed
	}
	const tokens = 60
	session := func(n *benched) { n.answer("The history of the lighthouse begins with fires on hills, and", tokens) }
	with := func() time.Duration {
		before := audited()
		return meter.Worked(b, func() {
			session(all)
			for late := time.Now().Add(20 * time.Second); audited() == before; <-time.After(20 * time.Millisecond) {
				if time.Now().After(late) {
					b.Fatal("a session is not audited within 20 s")
				}
			}
		})
	}
	session(nobody)
	with()
	var prices []float64
	for b.Loop() {
		for range 8 {
			a := with()
			prices = append(prices, a.Seconds()/meter.Worked(b, func() { session(nobody) }).Seconds()-1)
		}
	}
	slices.Sort(prices)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(prices[len(prices)/2], "price")
	b.ReportMetric(prices[len(prices)/2], "steady-%")
}
