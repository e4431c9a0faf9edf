//go:build demo

package web

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"whorl/store"
	"whorl/swarm"
)

// TestDemo serves made-up swarms until it is interrupted, to look at the pages:
//
//	go test -tags demo -run Demo -v -timeout 0 ./web
func TestDemo(t *testing.T) {
	for _, scene := range []string{"healthy", "broken", "empty", "big", "starting"} {
		site, mux := demoSite(t, scene), http.NewServeMux()
		mux.HandleFunc("/api/v2/generate", demoSocket)
		mux.Handle("/", site.Handler())
		srv := httptest.NewServer(mux)
		defer srv.Close()
		fmt.Println(scene, srv.URL)
		if scene != "starting" {
			go site.Run(t.Context())
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}

type demoNode struct{ status swarm.NodeStatus }

func (n demoNode) Status() swarm.NodeStatus { return n.status }

type demoDirectory struct{ scene string }

func demoPeer(i int) swarm.PeerID {
	return swarm.PeerID(fmt.Sprintf("12D3KooWE8n%03dpQ7vYb2kXf5tRmJ4hLwZs9cTgUaDr6NqVoMxP%02d", i*37%1000, i))
}

func demoRecord(i int, m swarm.Manifest, start, end int, state swarm.State) swarm.Record {
	rps, fwd := 1180+float64(i*73%400), 5210.0
	r := swarm.Record{Peer: demoPeer(i), UID: m.UID(), Manifest: m, Span: swarm.Span{Start: start, End: end}, State: state, Version: "0.1.0", Protocol: 2,
		Throughput: 96 + float64(i*17%60), CacheTotal: 16384, CacheLeft: 16384 - int64(i*1511%9000), MaxLength: 8192,
		Addrs: []string{fmt.Sprintf("/ip4/10.0.0.%d/tcp/31337", i+10), "/ip6/2001:db8::7/tcp/31337"}, Rates: swarm.Rates{InferenceRPS: &rps, ForwardRPS: &fwd},
		NextRTT: map[swarm.PeerID]float64{demoPeer(i + 1): 3.2 + float64(i), demoPeer(i + 2): 41}}
	if i%4 == 2 {
		r.Rates.ForwardRPS, r.Relay = nil, true
	}
	r.PublicName = []string{"Ann of the attic", "https://example.org/lab", "", "<b>Bob</b>", ""}[i%5]
	return r
}

func (d demoDirectory) Views() []swarm.View {
	class := swarm.Class{ConfigHash: "c0ffee00c0ffee00", DType: "f32", Quant: "q4_1", KVDType: "f32", Arithmetic: "exact1"}
	small := swarm.Manifest{Name: "smollm2-135m-instruct", Blocks: 30, Hidden: 576, Class: class}
	large := swarm.Manifest{Name: "llama-3.1-70b-instruct", Blocks: 80, Hidden: 8192, Class: class}
	view := func(m swarm.Manifest, r ...swarm.Record) swarm.View { return swarm.NewView(m, time.Now(), r) }
	switch d.scene {
	case "empty":
		return nil
	case "broken":
		return []swarm.View{view(small, demoRecord(1, small, 0, 10, swarm.Online), demoRecord(2, small, 10, 20, swarm.Offline), demoRecord(3, small, 20, 30, swarm.Online), demoRecord(4, small, 10, 14, swarm.Joining))}
	case "big":
		var rs []swarm.Record
		for i := range 14 {
			state := swarm.Online
			if i == 9 {
				state = swarm.Joining
			}
			rs = append(rs, demoRecord(i, large, i*6%68, i*6%68+12, state))
		}
		return []swarm.View{view(large, rs...), view(small, demoRecord(20, small, 0, 30, swarm.Online), demoRecord(21, small, 0, 30, swarm.Online))}
	}
	return []swarm.View{view(small, demoRecord(1, small, 0, 10, swarm.Online), demoRecord(2, small, 10, 20, swarm.Online), demoRecord(3, small, 20, 30, swarm.Online))}
}

func demoSite(t *testing.T, scene string) *Site {
	st, now := store.NewMemory(store.MemoryLimits()), time.Now()
	d := demoDirectory{scene}
	for m := 26 * 60; m > 0; m -= 5 { // the last day
		at := now.Add(-time.Duration(m) * time.Minute)
		s := store.Sample{Source: "demo", Crawl: store.Crawl{Started: at}}
		for _, v := range d.Views() {
			c := store.Measure(v)
			c.At = at
			if m > 600 && m < 660 {
				c.MinRedundancy, c.Bottleneck, c.SessionTPS = 0, nil, nil
			} else if c.Bottleneck != nil {
				b := *c.Bottleneck * (1 + .2*math.Sin(float64(m)/90))
				c.Bottleneck = &b
			}
			if m < 300 || m > 420 {
				s.Coverage = append(s.Coverage, c)
			}
			for i := range v.Servers {
				s.Observations = append(s.Observations, store.Observe(&v.Servers[i], at))
			}
		}
		if err := st.Write(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	span := swarm.Span{Start: 10, End: 20}
	site, err := New(DefaultConfig(), Deps{Directory: d, Store: st, Models: func() []string {
		if scene == "empty" {
			return nil
		}
		return []string{"smollm2-135m-instruct"}
	}, Node: demoNode{swarm.NodeStatus{Peer: demoPeer(2), Addrs: []string{"/ip4/127.0.0.1/tcp/31337/p2p/" + string(demoPeer(2)), "/ip4/10.0.0.12/tcp/31337/p2p/" + string(demoPeer(2))},
		Roles: []string{"server", "gateway"}, Version: "0.1.0", Swarm: "garden", State: swarm.Online, Span: &span, Sessions: 2, Peers: 7, Device: "cpu avx512",
		Cache: swarm.CacheStatus{TotalTokens: 16384, LeftTokens: 13362}}}})
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// demoSocket answers every turn with the same text.
func demoSocket(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	for {
		_, b, err := c.ReadMessage()
		if err != nil {
			return
		}
		var m struct{ Type string }
		json.Unmarshal(b, &m)
		if m.Type != "generate" {
			c.WriteJSON(map[string]any{"ok": true, "session_id": "demo"})
			continue
		}
		words := strings.SplitAfter("A whorl is a ring of petals around the stem of a flower. Each server of this swarm holds a few of the model's blocks, and together they answer you, one token at a time.", " ")
		for _, word := range words {
			<-pace.C
			c.WriteJSON(map[string]any{"ok": true, "outputs": word, "stop": false, "token_count": 1})
		}
		c.WriteJSON(map[string]any{"ok": true, "outputs": "", "stop": true, "token_count": 0, "stop_reason": "eos",
			"route": []map[string]string{{"peer": string(demoPeer(1)), "blocks": "0:10"}, {"peer": string(demoPeer(2)), "blocks": "10:20"}, {"peer": string(demoPeer(3)), "blocks": "20:30"}}})
	}
}
