//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// stream sends a streaming completion and joins its chunks.
func (s *swarm) stream(t *testing.T, body map[string]any) (ids []int32, text string, chunks []string) {
	t.Helper()
	body["model"] = s.model(t)
	b, _ := json.Marshal(body)
	resp, err := http.Post(s.gateway.HTTP+"/v1/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("status %d, content type %q", resp.StatusCode, ct)
	}
	done := false
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var c completion
		if err := json.Unmarshal([]byte(data), &c); err != nil || c.Error != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, x := range c.Choices {
			ids = append(ids, x.TokenIDs...)
			text += x.Text
			chunks = append(chunks, x.Text)
		}
	}
	if !done {
		t.Error("the stream ended without [DONE]")
	}
	return ids, text, chunks
}
