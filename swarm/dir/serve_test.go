package dir

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/p2p"
	"whorl/swarm/wire"
)

// Answers that their askers do not read have a budget: one asker gets its share of it, and
// another is answered all the same.
func TestAnswersHaveABudget(t *testing.T) {
	d, err := New(newHost(t, p2p.Config{}), quick(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.records = roomy()
	now := time.Now()
	for i := range wire.MaxOffered {
		p := swarm.PeerID(fmt.Sprint("p", i))
		d.records.put(bare(told(p, uint64(i+1), now.Sub(epoch), time.Minute), nil), source{named: true}, now)
		met(d.records, p)
	}
	pull, _ := json.Marshal(wire.Pull{Version: wire.Version, Swarm: d.cfg.Swarm, Most: wire.MaxOffered})
	liar, held, count := budget.Who{Peer: "liar"}, int64(0), 0
	for range 64 {
		a := d.reply("liar", liar, wire.TypePull, pull)
		if a == nil {
			break
		}
		if held, count = held+a.size, count+1; a.size < int64(2*len(a.frame)+24*len(a.parts)) {
			t.Fatalf("an answer of %d bytes takes %d", len(a.frame), a.size)
		}
	}
	if count == 0 || count == 64 || held > answerBytes/2 {
		t.Errorf("%d answers of one asker hold %d bytes, of %d in all", count, held, answerBytes)
	}
	a := d.reply("honest", budget.Who{Peer: "honest"}, wire.TypePull, pull)
	if a == nil {
		t.Fatal("another asker is not answered")
	}
	d.answers.Give(held, liar)
	d.answers.Give(a.size, budget.Who{Peer: "honest"})
	if d.answers.Used() != 0 || d.turns.Used() != 0 {
		t.Errorf("left: %d bytes, %d turns", d.answers.Used(), d.turns.Used())
	}
}
