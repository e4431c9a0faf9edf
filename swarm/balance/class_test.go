package balance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
)

var base = swarm.Manifest{Name: "m", Blocks: 8, Hidden: 4,
	Class: swarm.Class{ConfigHash: "h", DType: "bf16", Quant: "none", KVDType: "f32", Arithmetic: "cpu"}}

// in is the model in another class.
func in(dtype string) swarm.Manifest {
	m := base
	m.Class.DType = dtype
	return m
}

// serve makes a view of servers named after who they are; "name@prefix" was reached there.
func serve(m swarm.Manifest, servers ...string) swarm.View {
	var all []swarm.Record
	reached := map[swarm.PeerID]string{}
	for _, s := range servers {
		p, prefix, ok := strings.Cut(s, "@")
		all = append(all, swarm.Record{Peer: swarm.PeerID(p), Manifest: m, State: swarm.Online, Span: swarm.Span{Start: 0, End: m.Blocks}})
		if ok {
			reached[swarm.PeerID(p)] = prefix
		}
	}
	v := swarm.NewView(m, time.Time{}, all)
	v.Reached = reached
	return v
}

// many are servers that were reached at one prefix.
func many(n int, prefix string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d@%s", prefix, i, prefix))
	}
	return out
}

func TestAdopt(t *testing.T) {
	other := in("f16")
	other.Name = "another"
	for _, c := range []struct {
		what  string
		views []swarm.View
		can   string // what the files can give
		want  string // a dtype, or what the error names
	}{
		{"an empty swarm", nil, "f16", "bf16"},
		{"one other class", []swarm.View{serve(in("f16"), "a@1")}, "f16", "f16"},
		{"one that the files cannot give", []swarm.View{serve(in("f16"), "a@1")}, "", "bf16"},
		{"a stranger's record of the name", []swarm.View{serve(in("f16"), "a")}, "f16", "bf16"},
		{"many records of strangers beside one server that answers", []swarm.View{serve(in("f16"), "a", "b", "c", "d"), serve(in("f32"), "e@1")}, "f16 f32", "f32"},
		{"another model", []swarm.View{serve(other, "a@1")}, "f16", "bf16"},
		{"most prefixes win", []swarm.View{serve(in("f16"), "a@1", "b@2"), serve(in("f32"), "c@3")}, "f16 f32", "f16"},
		{"a hundred servers of one prefix are one vote", []swarm.View{serve(in("f16"), many(100, "1")...), serve(in("f32"), "a@2", "b@3")}, "f16 f32", "f32"},
		{"within one prefix the most servers", []swarm.View{serve(in("f16"), "a@1", "b@1"), serve(in("f32"), "c@1")}, "f16 f32", "f16"},
		{"a tie with our own: the files decide", []swarm.View{serve(in("f16"), "a@1"), serve(base, "b@2")}, "f16", "bf16"},
		{"our own is in the minority", []swarm.View{serve(in("f16"), "a@1", "b@2"), serve(base, "c@3")}, "f16", "f16"},
		{"a tie of others", []swarm.View{serve(in("f16"), "a@1"), serve(in("f32"), "b@2")}, "f16 f32", "f16/none/kv-f32/cpu (50 % of the votes), f32/none/kv-f32/cpu (50 % of the votes)"},
		{"a tie with what the files cannot give", []swarm.View{serve(in("f16"), "a@1"), serve(in("f32"), "b@2")}, "f32", "f32"},
	} {
		got, err := Adopt(base, c.views, func(cl swarm.Class) bool { return strings.Contains(c.can, cl.DType) })
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got.DType != c.want {
			t.Errorf("%s: %v, %v, want %s", c.what, got, err, c.want)
		}
	}
}

// However many servers an attacker runs in fewer prefixes than the honest have, and however
// many records he invents, a newcomer joins the honest.
func TestAdoptAmongSybils(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		honest := 2 + rng.IntN(6)
		var good, bad []string
		for i := range honest {
			good = append(good, fmt.Sprintf("good%d@net%d", i, i))
		}
		for i := range rng.IntN(300) {
			bad = append(bad, fmt.Sprintf("bad%d@evil%d", i, rng.IntN(honest-1)))
		}
		for i := range rng.IntN(300) {
			bad = append(bad, fmt.Sprint("rumour", i))
		}
		got, err := Adopt(base, []swarm.View{serve(in("f16"), bad...), serve(in("f32"), good...)}, func(swarm.Class) bool { return true })
		if err != nil || got.DType != "f32" {
			t.Fatalf("seed %d: %v, %v", seed, got, err)
		}
	}
}

// What nobody here has reached counts for no more than what others offer.
func TestClaimsMoveNoServer(t *testing.T) {
	v := serve(base, "a@1", "b@2", "liar")
	for i := range v.Servers {
		r := &v.Servers[i]
		switch r.Peer {
		case "a":
			r.Span, r.Throughput = swarm.Span{Start: 0, End: 4}, 100
		case "b":
			r.Span, r.Throughput = swarm.Span{Start: 2, End: 8}, 60
		case "liar":
			r.Throughput = 1e12
		}
	}
	if got := Throughputs(v, "me"); got[0] != 160 || got[7] != 120 {
		t.Errorf("%v", got)
	}
	delete(v.Reached, "a")
	delete(v.Reached, "b")
	if got := Throughputs(v, "me"); got[0] != 200 || got[7] != 160 { // all count up to the middle one, 100
		t.Errorf("nobody reached: %v", got)
	}
}
