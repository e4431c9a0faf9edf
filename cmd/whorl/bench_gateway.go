package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"whorl/internal/wiring"
)

// gatewayVocab bounds the ids that a gateway is asked with: every vocabulary has so many.
const gatewayVocab = 256

// gatewayClient asks a gateway through the OpenAI surface.
type gatewayClient struct {
	url, token, model string
	http              *http.Client
}

func newGatewayClient(base, token, model string) (*gatewayClient, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, wiring.Usagef("--url %q: want a URL such as http://127.0.0.1:8300", base)
	}
	// Each client keeps its connection: a level does not measure dialling.
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 4096
	return &gatewayClient{strings.TrimSuffix(base, "/"), token, model, &http.Client{Transport: t}}, nil
}

// ask is a bench.Ask: one streamed completion.
func (g *gatewayClient) ask(ctx context.Context, prompt []int32, tokens int, piece func(ids int)) error {
	body := map[string]any{
		"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true, "stream": true, "return_token_ids": true,
	}
	if g.model != "" {
		body["model"] = g.model
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/completions", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s: %s", req.URL, resp.Status, bytes.TrimSpace(b))
	}
	return readPieces(resp.Body, piece)
}

// maxEvent bounds a line of an event stream.
const maxEvent = 1 << 20

// readPieces reads a stream of completions to its end.
func readPieces(r io.Reader, piece func(ids int)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue // a comment, or the blank line after an event
		}
		if data = strings.TrimSpace(data); data == "[DONE]" {
			return nil
		}
		n, err := eventTokens([]byte(data))
		if err != nil {
			return err
		}
		piece(n)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("event stream: %w", err)
	}
	return errors.New("event stream: it ended without [DONE]")
}

// eventTokens counts the tokens of an event. A server that gives no ids is taken to send one
// token in each piece of text.
func eventTokens(data []byte) (int, error) {
	var event struct {
		Choices []struct {
			Text     string  `json:"text"`
			TokenIDs []int32 `json:"token_ids"`
		} `json:"choices"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return 0, fmt.Errorf("event stream: %w", err)
	}
	if len(event.Error) > 0 && string(event.Error) != "null" {
		return 0, fmt.Errorf("event stream: %s", event.Error)
	}
	n := 0
	for _, c := range event.Choices {
		switch {
		case c.TokenIDs != nil:
			n += len(c.TokenIDs)
		case c.Text != "":
			n++
		}
	}
	return n, nil
}
