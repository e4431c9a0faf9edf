package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"whorl/node"
)

const toy = "../internal/swarmtest/testdata/toy"

var loopback = []string{"/ip4/127.0.0.1/tcp/0"}

// ready runs a node until the test ends, which sees how it ended.
func ready(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-n.Ready():
	case err := <-done:
		t.Fatal(err)
	}
}

// A server that founds a swarm, and a gateway whose users get the text that a client gets.
func TestServerGatewayClient(t *testing.T) {
	server := node.NewServer(node.ServerOptions{
		Options: node.Options{Swarm: "lib", Listen: loopback, DataDir: t.TempDir()}, ModelOptions: node.ModelOptions{Model: toy, ModelName: "mine"},
		Memory: 1 << 30, CacheTokens: 1024, Throughput: "100", Blocks: "0:8",
	})
	if st := server.Status(); st.State != "offline" || st.PeerID != "" {
		t.Errorf("before it runs: %+v", st)
	}
	ready(t, server)
	st := server.Status()
	if st.State != "online" || st.Model != "mine" || len(st.UID) != 64 || st.Blocks != "0:8" || st.HTTP != "" || st.Admin != "" || len(st.Addrs) == 0 || !strings.HasSuffix(st.Addrs[0], st.PeerID) {
		t.Errorf("%+v", st)
	}
	if err := server.Run(t.Context()); !errors.Is(err, node.ErrRan) {
		t.Errorf("a second run: %v", err)
	}
	gateway := node.NewGateway(node.GatewayOptions{Options: node.Options{Swarm: "lib", InitialPeers: st.Addrs, Listen: loopback}, ModelOptions: node.ModelOptions{Model: toy, ModelName: "mine"}})
	ready(t, gateway)
	resp, err := http.Post(gateway.Status().HTTP+"/v1/completions", "application/json", strings.NewReader(`{"model":"mine","prompt":"Hello","max_tokens":6,"temperature":0,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got.Choices) != 1 {
		t.Fatalf("status %d, %+v, %v", resp.StatusCode, got, err)
	}
	client, err := node.Connect(t.Context(), node.ClientOptions{Swarm: "lib", InitialPeers: st.Addrs, ModelOptions: node.ModelOptions{Model: toy, ModelName: "mine"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var pieces strings.Builder
	a, err := client.Generate(t.Context(), node.Request{Prompt: "Hello", MaxNewTokens: 6, IgnoreEOS: true}, func(text string) error {
		pieces.WriteString(text)
		return nil
	})
	if err != nil || a.Text != got.Choices[0].Text || pieces.String() != a.Text || len(a.Tokens) != 6 || !a.Length || len(a.Route) != 1 || a.Route[0] != st.PeerID+" 0:8" {
		t.Errorf("%+v, %v, streamed %q, the gateway gave %q", a, err, pieces.String(), got.Choices[0].Text)
	}
	broken := errors.New("the reader left")
	if _, err := client.Generate(t.Context(), node.Request{Prompt: "Hello", MaxNewTokens: 6, IgnoreEOS: true}, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a reader that leaves: %v", err)
	}
}

// What cannot be is said by the options' names, before a port is taken, and told from what went wrong.
func TestWrongOptions(t *testing.T) {
	for want, n := range map[string]*node.Node{
		"no MODEL given":      node.NewServer(node.ServerOptions{Options: node.Options{Listen: loopback}}),
		"--block-indices":     node.NewServer(node.ServerOptions{ModelOptions: node.ModelOptions{Model: toy}, Blocks: "x", Memory: 1 << 30}),
		"--http":              node.NewGateway(node.GatewayOptions{Options: node.Options{HTTP: "0.0.0.0:0"}}),
		"--initial-peers":     node.NewBootstrap(node.BootstrapOptions{Options: node.Options{InitialPeers: []string{"/ip4/127.0.0.1/tcp/1"}}}),
		"--swarm":             node.NewBootstrap(node.BootstrapOptions{Options: node.Options{Swarm: "a b"}}),
		"no/such/folder.gguf": node.NewServer(node.ServerOptions{ModelOptions: node.ModelOptions{Model: "./no/such/folder.gguf"}, Memory: 1 << 30}),
	} {
		err := n.Run(t.Context())
		if err == nil || !node.Wrong(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wrong use: %v, want %s in it", err, node.Wrong(err), want)
		}
		select {
		case <-n.Ready():
			t.Errorf("%s: ready", want)
		default:
		}
	}
	if _, err := node.Connect(t.Context(), node.ClientOptions{ModelOptions: node.ModelOptions{Model: toy}}); err == nil || !node.Wrong(err) || !strings.Contains(err.Error(), "--initial-peers") {
		t.Errorf("a client of no swarm: %v", err)
	}
}
