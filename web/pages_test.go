package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"whorl/swarm"
	"whorl/web/view"
)

// cells are the blocks a page shows, as "index state holders".
func cells(body string) (out []string) {
	for _, m := range regexp.MustCompile(`data-testid="block" data-block="(\d+)" data-holders="(\d+)" data-state="(\w+)"`).FindAllStringSubmatch(body, -1) {
		out = append(out, m[1]+" "+m[3]+" "+m[2])
	}
	return out
}

func TestPagesShowTheSwarm(t *testing.T) {
	r, m := newRig(t), manifest("tiny", 12)
	r.dir.set(viewOf(m,
		record("alpha", m, 0, 10, swarm.Online, named("Ann"), func(r *swarm.Record) {
			r.NextRTT = map[swarm.PeerID]float64{"beta": 7.25}
			r.Addrs = []string{"/ip4/10.1.2.3/tcp/5"}
		}),
		record("beta", m, 8, 11, swarm.Online, named("Bob"), func(r *swarm.Record) {
			r.Rates, r.Throughput, r.Relay = swarm.Rates{}, 0, true
			r.Adapters = []swarm.Adapter{{Name: "poems", Digest: "d"}, {Name: "prose", Digest: "e"}}
		}),
		record("gamma", m, 11, 12, swarm.Joining, func(r *swarm.Record) { r.Loading = swarm.NewLoading(3<<20, 12<<20, 1<<20) })))
	r.refresh(t, nil)

	want := []string{"0 online 1", "7 online 1", "8 online 2", "9 online 2", "10 online 1", "11 joining 0"}
	for _, path := range []string{"/", "/models/" + string(m.UID())} {
		status, body := r.get(t, path)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d", path, status)
		}
		got := cells(body)
		if len(got) != 12 {
			t.Fatalf("%s shows %d blocks: %v", path, len(got), got)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(got, "\n")+"\n", w+"\n") {
				t.Errorf("%s: blocks %v lack %q", path, got, w)
			}
		}
	}
	_, body := r.get(t, "/")
	wantText(t, body, "tiny cannot answer now.", "Nobody holds block 11, since ", "Servers are loading all of them.", `href="/models/`+string(m.UID())+`"`, "Ann", `href="/play?model=tiny"`)
	_, body = r.get(t, "/models/"+string(m.UID()))
	wantText(t, body, "alpha", "beta", "gamma", "0:10", "not measured", "through a relay", "11 of 12 blocks are held; missing: 11.", "sessions to 2048", "of 4.1k tokens", "exact1", "Older", "fetched 3 of 12 MiB, 1.0 MiB/s, 9s left", `width="250"`)
	_, body = r.get(t, "/models/"+string(m.UID())+"?block=9&sort=cache&range=1h&evil=%22%3E")
	wantText(t, body, "Servers of block 9.", "alpha", "beta", "sort=cache", "range=1h")
	wantNot(t, body, `data-peer="gamma"`, "evil")
	_, body = r.get(t, "/servers/alpha")
	wantText(t, body, "Online and serving.", "Ann", "7.2 ms", "/ip4/10.1.2.3/tcp/5", "100 tok/s", "serves blocks 0-9")
	wantNot(t, body, "Adapters")
	_, body = r.get(t, "/servers/beta")
	wantText(t, body, "7.2 ms", "not measured", "Adapters", "poems, prose")
	_, body = r.get(t, "/events")
	wantText(t, body, "serves blocks 0-9 of tiny", "loads block 11 of tiny", "is broken: blocks 11 are missing")
}

// Bob holds three blocks: his name must not leave this node, on any page.
func TestHiddenNamesStayHidden(t *testing.T) {
	r, m := newRig(t), manifest("tiny", 12)
	r.dir.set(viewOf(m, record("alpha", m, 0, 10, swarm.Online, named("Ann")), record("beta", m, 8, 11, swarm.Online, named("Hidden Bob"))))
	l := r.refresh(t, nil)
	r.dir.set(viewOf(m)) // both are gone: past servers are shown without names
	r.refresh(t, l)
	for _, path := range []string{"/", "/models/" + string(m.UID()), "/servers/alpha", "/servers/beta", "/events"} {
		status, body := r.get(t, path)
		if status != http.StatusOK {
			t.Errorf("%s: status %d", path, status)
		}
		wantNot(t, body, "Hidden Bob")
	}
	_, body := r.get(t, "/models/"+string(m.UID()))
	wantText(t, body, `data-peer="beta" class="gone"`, "offline")
}

func TestHostileTextIsText(t *testing.T) {
	const script, image = `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`
	r, m := newRig(t), manifest(`tiny`+image, 10)
	r.deps.Models = func() []string { return []string{m.Name} }
	r.dir.set(viewOf(m,
		record("a"+image, m, 0, 10, swarm.Online, named(script), func(r *swarm.Record) {
			r.Version = image
			r.Addrs = []string{script}
			r.Adapters = []swarm.Adapter{{Name: script, Digest: "d"}, {Name: image, Digest: "d"}}
		}),
		record("b", m, 0, 10, swarm.Online, named("javascript:alert(1)")),
		record("c", m, 0, 10, swarm.Online, named("\u202egnp.exe"+strings.Repeat("x", 100))),
		record("d", m, 0, 10, swarm.Online, named(`https://example.org/"onmouseover="alert(1)`))))
	r.refresh(t, nil)
	for _, path := range []string{"/", "/models/" + string(m.UID()), "/servers/b", "/servers/" + strings.NewReplacer(`"`, "%22", ">", "%3E", "<", "%3C", " ", "%20").Replace("a"+image), "/play", "/events"} {
		status, body := r.get(t, path)
		if status != http.StatusOK {
			t.Errorf("%s: status %d", path, status)
		}
		wantNot(t, body, script, image, "<img", `href="javascript:`, "\u202e", strings.Repeat("x", 60), `"onmouseover="alert`)
	}
	page := r.listen(t, "/ui/live/")
	defer page.end()
	for id, html := range page.next().Sections {
		if strings.Contains(html, "<img") || strings.Contains(html, "<script") {
			t.Errorf("section %s holds hostile markup: %s", id, html)
		}
	}
}

// Everything a page uses is its own, and the policy would stop what is not.
func TestPagesUnderThePolicy(t *testing.T) {
	r, m := newRig(t), manifest("tiny", 10)
	r.dir.set(viewOf(m, record("a", m, 0, 10, swarm.Online, named("https://example.org"))))
	r.refresh(t, nil)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?: [^>]*)?>[^<]`)
	loads := regexp.MustCompile(`(?:src|<link[^>]*href)="([^"]*)"`)
	for _, path := range []string{"/", "/models/" + string(m.UID()), "/servers/a", "/play", "/reference", "/events", "/nowhere"} {
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'self'") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", path, got)
		}
		if at := inline.FindString(w.Body.String()); at != "" {
			t.Errorf("%s holds inline code or style: %q", path, at)
		}
		for _, at := range loads.FindAllStringSubmatch(w.Body.String(), -1) {
			if !strings.HasPrefix(at[1], "/static/") {
				t.Errorf("%s loads %q", path, at[1])
				continue
			}
			asset := httptest.NewRecorder()
			r.Handler().ServeHTTP(asset, httptest.NewRequest(http.MethodGet, at[1], nil))
			if asset.Code != http.StatusOK || !strings.Contains(asset.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s: status %d, cache %q", at[1], asset.Code, asset.Header().Get("Cache-Control"))
			}
		}
	}
}

func TestPagesWithoutASwarm(t *testing.T) {
	r := newRig(t)
	_, body := r.get(t, "/")
	wantText(t, body, "Asking the swarm.", "Not refreshed yet.")
	wantNot(t, body, "No model is served")
	l := r.refresh(t, nil)
	_, body = r.get(t, "/")
	wantText(t, body, "No model is served yet.", "whorl serve MODEL --initial-peers /ip4/127.0.0.1/tcp/1/p2p/gate --swarm garden")

	// A round that fails must not look like an empty swarm.
	m := manifest("tiny", 4)
	r.dir.set(viewOf(m, record("a", m, 0, 4, swarm.Online)))
	r.refresh(t, l)
	r.dir.fail(errors.New("no peer answered"))
	r.dir.set()
	r.refresh(t, l)
	_, body = r.get(t, "/")
	wantText(t, body, "tiny", "1 round failed: No peer answered.")
	if events, _ := r.store.Memory.Events(t.Context(), eventsOf("a")); len(events) != 1 {
		t.Errorf("events %+v: a failed round must not make servers leave", events)
	}
}

func TestPagesThatAreNotThere(t *testing.T) {
	r := newRig(t)
	r.refresh(t, nil)
	for path, text := range map[string]string{
		"/models/beef": "The swarm has no such model.", "/servers/nobody": "No server with that id is known.", "/nowhere": "There is no such page.",
		"/servers/" + strings.Repeat("x", 5000): "No server with that id is known.",
	} {
		status, body := r.get(t, path)
		if status != http.StatusNotFound {
			t.Errorf("%.40s: status %d", path, status)
		}
		wantText(t, body, text)
	}
	if status, _ := r.get(t, "/ui/live/models/beef"); status != http.StatusNoContent {
		t.Errorf("the stream of a page that is not there has status %d, want 204: do not come back", status)
	}
	if status, _ := r.get(t, "/static/app.000000000000.css"); status != http.StatusNotFound {
		t.Error("a static file of another version is served")
	}
}

func TestPlayground(t *testing.T) {
	r, m := newRig(t), manifest("tiny", 4)
	r.deps.Models = func() []string { return []string{"tiny", "other"} }
	r.dir.set(viewOf(m, record("a", m, 0, 3, swarm.Online)))
	r.refresh(t, nil)
	_, body := r.get(t, "/play?model=other")
	wantText(t, body, `data-testid="prompt"`, `data-socket="/api/v2/generate"`, "can read it", `<option value="tiny" data-max="0">tiny (broken)</option>`,
		`<option value="other" data-max="0" selected>other</option>`, "curl -N http://example.com/v1/chat/completions", `&#34;model&#34;:&#34;other&#34;`)
	small := record("b", m, 2, 4, swarm.Online)
	small.CacheTotal = 1024 // what the swarm can hold
	r.dir.set(viewOf(m, record("a", m, 0, 3, swarm.Online), small))
	r.refresh(t, nil)
	_, body = r.get(t, "/play?model=other")
	wantText(t, body, `<option value="tiny" data-max="1024">`)
	r.deps.Models = func() []string { return nil }
	_, body = r.get(t, "/play")
	wantText(t, body, "serves no model yet")
}

// Strangers can announce as much as they like: pages stay bounded.
func TestPagesAreBounded(t *testing.T) {
	r, m := newRig(t), manifest("huge", swarm.MaxBlocks)
	var all []swarm.Record
	for i := range 1000 {
		all = append(all, record(fmt.Sprintf("peer%04d", i), m, 0, 2, swarm.Online))
	}
	r.dir.set(viewOf(m, all...))
	r.refresh(t, nil)
	_, body := r.get(t, "/")
	if n := len(cells(body)); n != lineBlocks {
		t.Errorf("the overview shows %d blocks, want %d groups", n, lineBlocks)
	}
	_, body = r.get(t, "/models/"+string(m.UID()))
	if n := strings.Count(body, `data-testid="server"`); n != maxRows {
		t.Errorf("%d servers are shown, want %d", n, maxRows)
	}
	wantText(t, body, "700 more servers not shown.")
	if len(body) > 3<<20 {
		t.Errorf("the page has %d bytes", len(body))
	}
}

// The page of a server that this gateway avoids says until when and why.
func TestServerPageSaysWhyItIsAvoided(t *testing.T) {
	r := newRig(t, func(_ *Config, d *Deps) {
		d.Avoided = func(p swarm.PeerID) (time.Time, string, bool) { return t0, "its rows <differ>", p == "liar" }
	})
	m := swarm.Manifest{Name: "tiny", Blocks: 4}
	r.dir.set(viewOf(m, record("liar", m, 0, 4, swarm.Online), record("good", m, 0, 4, swarm.Online)))
	r.refresh(t, nil)
	_, body := r.get(t, "/servers/liar")
	wantText(t, body, "This gateway avoids it until 1 Mar 12:00:00 UTC: its rows &lt;differ&gt;.")
	if _, body := r.get(t, "/servers/good"); strings.Contains(body, "avoids it") {
		t.Error("an honest server is said to be avoided")
	}
}

// The page of this node's own server tells how sessions share iterations; others do not say.
func TestServerPageShowsTheMeanBatch(t *testing.T) {
	r := record("gate", swarm.Manifest{Name: "tiny", Blocks: 4}, 0, 4, swarm.Online)
	for _, c := range []struct {
		node fakeNode
		want bool
	}{
		{fakeNode{Peer: "gate", Batch: swarm.BatchStatus{Sessions: 9, Recent: 3.26}}, true},
		{fakeNode{Peer: "gate"}, false}, // nothing computed yet
		{fakeNode{Peer: "other", Batch: swarm.BatchStatus{Sessions: 9, Recent: 3.26}}, false},
	} {
		s := &Site{deps: Deps{Node: c.node}}
		facts := s.serverRecord(&snapshot{}, &r, t0).Facts
		i := slices.IndexFunc(facts, func(f view.Fact) bool { return f.Name == "Mean batch" })
		if (i >= 0) != c.want || c.want && facts[i].Value != "3.3" {
			t.Errorf("%+v: %+v", c.node.Batch, facts)
		}
	}
}
