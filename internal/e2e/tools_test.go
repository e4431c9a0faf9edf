//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"whorl/internal/schematest"
)

const smol = "../../models/SmolLM2-135M-Instruct.Q4_1.gguf"

// spawnSmol starts a swarm of the small real model, two servers of which hold its second half.
func spawnSmol(t *testing.T) *swarm {
	t.Helper()
	if _, err := os.Stat(smol); err != nil {
		t.Skip("not proven: tool calls of a real model, and agents with it: run scripts/get-model.sh")
	}
	s := &swarm{bootstrap: start(t, "bootstrap", "--new-swarm", "--host-maddrs", "/ip4/127.0.0.1/tcp/0")}
	for _, span := range []string{"0:15", "15:30", "15:30"} {
		s.servers = append(s.servers, launch(t, "serve", smol, "--initial-peers", s.peers(), "--block-indices", span,
			"--http", "off", "--admin", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--throughput", "1000", "--update-period", "1s"))
	}
	for i, n := range s.servers {
		if err := n.wait(t, patience); err != nil {
			t.Fatalf("server %d: %v\n%s", i, err, n.log)
		}
	}
	s.gateway = start(t, "gateway", smol, "--initial-peers", s.peers(), "--http", "127.0.0.1:0", "--host-maddrs", "/ip4/127.0.0.1/tcp/0", "--ollama")
	return s
}

// madeCall is a call as a chat's answer has it.
type madeCall struct {
	ID       string `json:"id"`
	Function struct{ Name, Arguments string }
}

// chat asks for an answer and decodes it.
func (s *swarm) chat(t *testing.T, body map[string]any) (message struct {
	Content   *string
	ToolCalls []madeCall `json:"tool_calls"`
}, finish string) {
	t.Helper()
	b, _ := json.Marshal(body)
	resp, err := http.Post(s.gateway.HTTP+"/v1/chat/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Error(err)
		return message, ""
	}
	defer resp.Body.Close()
	var out struct {
		Choices []struct {
			Message      json.RawMessage
			FinishReason string `json:"finish_reason"`
		}
	}
	raw, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(raw, &out); err != nil || len(out.Choices) != 1 || json.Unmarshal(out.Choices[0].Message, &message) != nil {
		t.Errorf("status %d, %v: %s", resp.StatusCode, err, raw)
		return message, ""
	}
	return message, out.Choices[0].FinishReason
}

func function(name, parameters string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{"name": name, "description": "To " + strings.ReplaceAll(name, "_", " ") + ".", "parameters": json.RawMessage(parameters)}}
}

// A model of 135 million parameters, whose template knows no tools, calls them rightly where it
// has to: each of 50 tasks gives a call of an offered tool with arguments that are valid by its
// schema. An agent goes on when a server dies in the middle of a call, and other people's agents
// run.
func TestToolsOfSmallModel(t *testing.T) {
	s := spawnSmol(t)
	t.Run("fifty tasks", func(t *testing.T) { fiftyTasks(t, s) })
	t.Run("schemas", func(t *testing.T) { schemasOfSuite(t, s) })
	for _, program := range []string{"agents_client.py", "agents_client.mjs", "lm_eval_client.py"} {
		t.Run(program, func(t *testing.T) { client(t, program, s.gateway.HTTP) })
	}
	t.Run("a server dies", func(t *testing.T) { dyingServer(t, s) })
}

func fiftyTasks(t *testing.T, s *swarm) {
	schemas := map[string]string{
		"get_weather":    `{"type":"object","properties":{"city":{"type":"string","maxLength":24},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city","days","unit"],"additionalProperties":false}`,
		"send_message":   `{"type":"object","properties":{"to":{"type":"string","pattern":"^[a-z]{2,12}@example\\.org$"},"text":{"type":"string","minLength":1,"maxLength":40},"urgent":{"type":"boolean"}},"required":["to","text"],"additionalProperties":false}`,
		"book_table":     `{"type":"object","properties":{"day":{"type":"string","format":"date"},"people":{"type":"integer","minimum":1,"maximum":12}},"required":["day","people"],"additionalProperties":false}`,
		"search_catalog": `{"type":"object","properties":{"words":{"type":"array","items":{"type":"string","maxLength":12},"minItems":1,"maxItems":3},"at_most":{"type":"number","minimum":0,"maximum":1000}},"required":["words"],"additionalProperties":false}`,
		"stop_timer":     `{"type":"object","properties":{}}`,
	}
	var tools []any
	judges := map[string]*schematest.Judge{}
	for _, name := range []string{"get_weather", "send_message", "book_table", "search_catalog", "stop_timer"} {
		tools = append(tools, function(name, schemas[name]))
		judge, err := schematest.NewJudge([]byte(schemas[name]), true)
		if err != nil {
			t.Fatal(err)
		}
		judges[name] = judge
	}
	asks := []string{"Will it rain in Oslo?", "Tell anna that I am late.", "A table for four, please.", "Find me a red bicycle.", "Stop the timer.",
		"How cold is Quito this week?", "Write to bob: happy birthday!", "Dinner for two on Friday.", "Books about whales below 20.", "That is enough, stop it."}
	var mu sync.Mutex
	right, called := 0, map[string]int{}
	var group sync.WaitGroup
	places := make(chan struct{}, 4)
	for i := range 50 {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			message, finish := s.chat(t, map[string]any{
				"messages": []any{map[string]any{"role": "user", "content": asks[i%len(asks)]}}, "tools": tools, "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 160, "seed": i,
			})
			if finish != "tool_calls" || len(message.ToolCalls) != 1 {
				t.Errorf("task %d: %s with %+v", i, finish, message)
				return
			}
			call := message.ToolCalls[0].Function
			var err error
			if judges[call.Name] != nil {
				err = judges[call.Name].Check(call.Arguments)
			}
			mu.Lock()
			defer mu.Unlock()
			if called[call.Name]++; err != nil || judges[call.Name] == nil {
				t.Errorf("task %d: %s(%s): %v", i, call.Name, call.Arguments, err)
				return
			}
			right++
		})
	}
	group.Wait()
	t.Logf("%d of 50 calls parse and validate: %v", right, called)
}

// reroutes are those that a gateway counted.
func reroutes(t *testing.T, s *swarm) (n float64) {
	t.Helper()
	resp, err := http.Get(s.gateway.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	for _, m := range regexp.MustCompile(`(?m)^whorl_reroutes_total\{.*\} (\S+)$`).FindAllSubmatch(b, -1) {
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		n += v
	}
	return n
}

// dyingServer is an agent's loop of call, result and answer, through a server that dies when the
// call was begun: the call is the one that an undisturbed swarm makes.
func dyingServer(t *testing.T, s *swarm) {
	tool := function("write_diary", `{"type":"object","properties":{"entry":{"type":"string","minLength":900,"maxLength":1000}},"required":["entry"]}`)
	messages := []any{map[string]any{"role": "user", "content": "Write down what happened today."}}
	body := map[string]any{"messages": messages, "tools": []any{tool}, "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 1000, "seed": 5}
	want, finish := s.chat(t, body)
	if finish != "tool_calls" {
		t.Fatalf("%s: %+v", finish, want)
	}
	body["stream"] = true
	b, _ := json.Marshal(body)
	before := reroutes(t, s)
	resp, err := http.Post(s.gateway.HTTP+"/v1/chat/completions", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	arguments, id, pieces, ended := "", "", 0, ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					ToolCalls []madeCall `json:"tool_calls"`
				}
				FinishReason *string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte("{"+data), &c); err != nil || len(c.Choices) != 1 {
			t.Fatalf("%v: %s", err, data)
		}
		for _, call := range c.Choices[0].Delta.ToolCalls {
			arguments += call.Function.Arguments
			id += call.ID
			if pieces++; pieces == 4 {
				s.inUse(t, 1, 2).kill()
			}
		}
		if r := c.Choices[0].FinishReason; r != nil {
			ended = *r
		}
	}
	if arguments != want.ToolCalls[0].Function.Arguments || ended != "tool_calls" {
		t.Errorf("%s: %s\nundisturbed: %s", ended, arguments, want.ToolCalls[0].Function.Arguments)
	}
	if n := reroutes(t, s) - before; n < 1 {
		t.Errorf("%v re-routes: no server was lost in the call", n)
	}
	call := map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "write_diary", "arguments": arguments}}
	messages = append(messages, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, map[string]any{"role": "tool", "tool_call_id": id, "content": "written"})
	if said, _ := s.chat(t, map[string]any{"messages": messages, "tools": []any{tool}, "max_tokens": 8, "seed": 5}); said.Content == nil && said.ToolCalls == nil {
		t.Errorf("no answer to what the tool said: %s", fmt.Sprint(said))
	}
}
