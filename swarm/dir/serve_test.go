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
	for i := range 20 {
		p := swarm.PeerID(fmt.Sprint("p", i))
		d.records.put(told(p, uint64(i+1), now.Sub(epoch), time.Minute), make([]byte, 40<<10), source{named: true}, now)
		met(d.records, p)
	}
	pull, _ := json.Marshal(wire.Pull{Version: wire.Version, Swarm: d.cfg.Swarm})
	liar, held, count := budget.Who{Peer: "liar"}, int64(0), 0
	for range 64 {
		frame, size := d.reply("liar", liar, wire.TypePull, pull)
		if frame == nil {
			break
		}
		if held, count = held+size, count+1; size < int64(len(frame)) {
			t.Fatalf("an answer of %d bytes takes %d", len(frame), size)
		}
	}
	if count == 0 || count == 64 || held > answerBytes/2 {
		t.Errorf("%d answers of one asker hold %d bytes, of %d in all", count, held, answerBytes)
	}
	frame, size := d.reply("honest", budget.Who{Peer: "honest"}, wire.TypePull, pull)
	if frame == nil {
		t.Fatal("another asker is not answered")
	}
	d.answers.Give(held, liar)
	d.answers.Give(size, budget.Who{Peer: "honest"})
	if d.answers.Used() != 0 || d.turns.Used() != 0 {
		t.Errorf("left: %d bytes, %d turns", d.answers.Used(), d.turns.Used())
	}
}
