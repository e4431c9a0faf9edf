package control

import (
	"testing"
	"time"

	"whorl/api/gen"
	"whorl/swarm"
)

var manifest = swarm.Manifest{Name: "org/toy", Blocks: 8, Hidden: 4, Class: swarm.Class{ConfigHash: "c", DType: "f32", Quant: "none", KVDType: "f32", Arithmetic: "exact1"}}

func record(peer string, from, to int, state swarm.State) swarm.Record {
	return swarm.Record{Peer: swarm.PeerID(peer), Manifest: manifest, Span: swarm.Span{Start: from, End: to}, State: state, Seq: 1, Throughput: 10, CacheTotal: 1000, CacheLeft: 600}
}

func view(records ...swarm.Record) swarm.View {
	return swarm.NewView(manifest, time.Unix(1750000000, 0), records)
}

func TestSwarmStates(t *testing.T) {
	a := func(from, to int, s swarm.State) swarm.Record { return record("12D3KooWa", from, to, s) }
	c := func(from, to int) swarm.Record { return record("12D3KooWc", from, to, swarm.Online) }
	for _, x := range []struct {
		view    swarm.View
		state   gen.ModelState
		verdict string
		weakest float64
	}{
		{view(), "broken", "Nobody holds blocks 0-7.", 0},
		{view(a(0, 8, swarm.Joining)), "broken", "Nobody holds blocks 0-7.", 0},
		{view(a(0, 5, swarm.Online), c(6, 8)), "broken", "Nobody holds block 5.", 0},
		{view(a(0, 5, swarm.Online), c(2, 8)), "healthy", "Every block is held; blocks 0-1, 5-7 have no spare.", 10},
		{view(a(0, 8, swarm.Online), c(0, 8)), "healthy", "Every block is held 2 times or more: any server may leave.", 20},
		{swarm.View{Manifest: manifest}, "unknown", "Its servers have not been heard from recently.", 0},
	} {
		got := modelStatus(x.view)
		if got.State != x.state || got.Verdict != x.verdict || got.Throughput != x.weakest || got.CacheTokensLeft != int64(x.weakest*60) {
			t.Errorf("%+v, want %+v", got, x)
		}
	}
}

func TestServerLoading(t *testing.T) {
	r := record("12D3KooWa", 0, 8, swarm.Joining)
	r.Loading = swarm.NewLoading(100, 400, 50)
	got := serverStatus(&r).Loading
	if got == nil || got.BytesDone != 100 || got.BytesTotal != 400 || got.BytesPerSecond != 50 || got.SecondsLeft == nil || *got.SecondsLeft != 6 {
		t.Errorf("%+v", got)
	}
}
