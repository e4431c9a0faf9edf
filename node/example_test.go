package node_test

import (
	"context"
	"fmt"
	"log"

	"whorl/node"
)

// A whole swarm in one program, on loopback: a bootstrap, a server that holds all blocks of a small model, and a
// client that asks it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	loopback := []string{"/ip4/127.0.0.1/tcp/0"}
	model := node.ModelOptions{Model: "../internal/swarmtest/testdata/toy"} // a folder, a .gguf file, owner/name of the hub, or an invitation

	bootstrap := node.NewBootstrap(node.BootstrapOptions{Options: node.Options{Listen: loopback}})
	ended := start(ctx, bootstrap)
	peers := bootstrap.Status().Addrs

	server := node.NewServer(node.ServerOptions{
		Options:      node.Options{InitialPeers: peers, Listen: loopback},
		ModelOptions: model,
		Memory:       1 << 30,
		CacheTokens:  1024,
		Throughput:   "100", // tokens a second; "" measures
	})
	served := start(ctx, server)
	fmt.Println(server.Status().State, server.Status().Blocks)

	client, err := node.Connect(ctx, node.ClientOptions{ModelOptions: model, InitialPeers: peers})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Generate(ctx, node.Request{Prompt: "Hello", MaxNewTokens: 8, IgnoreEOS: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d tokens, %d server: %q\n", len(answer.Tokens), len(answer.Route), answer.Text)
	client.Close()
	stop()
	fmt.Println(<-served, <-ended)
	// Output:
	// online 0:8
	// 8 tokens, 1 server: "tach?ver in?pent."
	// <nil> <nil>
}

// start runs a node and waits until it is ready.
func start(ctx context.Context, n *node.Node) (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	select {
	case <-n.Ready():
	case err := <-done:
		log.Fatal(err)
	}
	return done
}
