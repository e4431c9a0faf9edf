package node

import (
	"context"
	"errors"
	"math/rand/v2"

	"whorl/client"
	"whorl/internal/wiring"
)

// ClientOptions say whom a client asks for what.
type ClientOptions struct {
	ModelOptions
	// Swarm, InitialPeers, SwarmKey, CacheDir and Environ are as those of nodes.
	Swarm        string
	InitialPeers []string
	SwarmKey     string
	CacheDir     string
	Environ      []string
}

// Client asks a swarm for answers of one model. Several goroutines may use it.
type Client struct {
	asker *wiring.Asker
	how   wiring.AskOptions
}

// Connect joins a swarm as somebody who only asks, opens what a client computes of the model itself (its head) and
// its tokenizer. The context bounds that alone.
func Connect(ctx context.Context, o ClientOptions) (*Client, error) {
	c := new(Client)
	c.how.Defaults()
	s := set{}
	s.text("swarm", &c.how.Swarm.Swarm, o.Swarm)
	s.text("swarm-key", &c.how.Swarm.SwarmKey, o.SwarmKey)
	c.how.Swarm.InitialPeers, s["initial-peers"] = o.InitialPeers, len(o.InitialPeers) > 0
	o.model(s, &c.how.Model, &c.how.Compute)
	c.how.Model.Hub.Cache = o.CacheDir
	var args []string
	if o.Model != "" {
		args = []string{o.Model}
	}
	ctx = wiring.WithEnviron(ctx, o.Environ)
	var err error
	if c.asker, err = c.how.Open(ctx, s.given, args); err != nil {
		return nil, err
	}
	if err := c.how.Connect(ctx, c.asker, 1, 1); err != nil {
		return nil, errors.Join(err, c.asker.Close())
	}
	return c, nil
}

// Close leaves the swarm; answers that are being written end with an error.
func (c *Client) Close() error { return c.asker.Close() }

// Request is what to answer.
type Request struct {
	// Prompt is the text to go on from.
	Prompt string
	// MaxNewTokens is the most that the answer may have. 0: 256, or what the model has room for.
	MaxNewTokens int
	// Temperature 0 takes the likeliest token; TopP (0: all) and TopK (0: all) leave out unlikely ones.
	Temperature, TopP float64
	TopK              int
	// Seed makes draws repeatable. 0: random.
	Seed uint64
	// Stop are texts that end the answer and are not shown.
	Stop []string
	// IgnoreEOS goes on after end tokens.
	IgnoreEOS bool
	// Verify is how many chains of servers without a common one compute every token, and must agree: 0 or 1 for one, at most 3.
	Verify int
}

// Answer is what came.
type Answer struct {
	Text         string
	PromptTokens int
	Tokens       []int32
	// Length tells that MaxNewTokens or the model's room ended it, and no end token or stop text.
	Length bool
	// Route are the servers that computed it, as PEER BLOCKS, at its end; Reroutes how often that changed.
	Route    []string
	Reroutes int
}

// defaultTokens is the most of an answer where nobody says.
const defaultTokens = 256

// Generate writes one answer. piece, which may be nil, hears of the text as it comes; its error ends the answer.
// The answer so far is returned beside an error.
func (c *Client) Generate(ctx context.Context, r Request, piece func(text string) error) (Answer, error) {
	if c.asker.Tokenizer == nil {
		return Answer{}, c.asker.TokenizerErr
	}
	ids, err := c.asker.Engine.Encode(r.Prompt, true)
	if err != nil {
		return Answer{}, err
	}
	tokens := r.MaxNewTokens
	if tokens == 0 {
		tokens = min(defaultTokens, c.asker.Engine.Model().MaxLength-len(ids))
	}
	s, err := c.asker.Engine.Open(ctx, client.SessionOptions{MaxLength: len(ids) + tokens, Verify: r.Verify})
	if err != nil {
		return Answer{}, err
	}
	defer s.Close()
	req := client.Request{Prompt: ids, MaxNewTokens: tokens, Stop: r.Stop, IgnoreEOS: r.IgnoreEOS, TopLogprobs: -1}
	req.Sampling.Temperature, req.Sampling.TopK, req.Sampling.TopP, req.Sampling.Seed = r.Temperature, r.TopK, r.TopP, r.Seed
	if req.Sampling.TopP == 0 {
		req.Sampling.TopP = 1
	}
	if r.Seed == 0 {
		req.Sampling.Seed = rand.Uint64()
	}
	res, err := s.Generate(ctx, req, func(d client.Delta) error {
		if piece == nil || d.Text == "" {
			return nil
		}
		return piece(d.Text)
	})
	out := Answer{Text: res.Text, PromptTokens: res.PromptTokens, Tokens: res.IDs, Length: res.Finish == client.FinishLength, Reroutes: res.Reroutes}
	for _, h := range res.Route {
		out.Route = append(out.Route, string(h.Peer)+" "+h.Span.String())
	}
	return out, err
}
