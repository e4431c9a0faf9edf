package api

import (
	"slices"
	"strings"
	"testing"

	"whorl/internal/keys"
)

// Which operations need no token, take pages of guests or stand on one listener alone is what
// the contract says: this is the list.
func TestRules(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := readRules(doc)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for op, to := range rules.operations {
		if !to.token {
			lists["no token"] = append(lists["no token"], op)
		}
		if to.guests {
			lists["guests"] = append(lists["guests"], op)
		}
		lists[to.listener] = append(lists[to.listener], op)
		if to.scope == keys.Admin {
			lists["scope admin"] = append(lists["scope admin"], op)
		}
		if to.guests != (to.scope == keys.Infer) && to.token {
			t.Errorf("%s: the scope is %s", op, to.scope)
		}
	}
	delete(lists, "both")
	inference := "DELETE /v1/responses/{id}, GET /api/tags, GET /api/v1/hidden, GET /api/v2/generate, GET /api/version, GET /tokenizer_info, GET /v1/models, GET /v1/models/{id}, GET /v1/responses/{id}, GET /v1/responses/{id}/input_items, POST /api/chat, POST /api/generate, POST /api/show, POST /api/v1/classify, POST /api/v1/generate, POST /detokenize, POST /tokenize, POST /v1/chat/completions, POST /v1/completions, POST /v1/embeddings, " +
		"POST /v1/messages, POST /v1/messages/count_tokens, POST /v1/responses, POST /v1/score"
	want := map[string]string{
		"no token": "GET /api/v1/is_reachable/{peer_id}, GET /api/v1/state, GET /api/v1/swarm, GET /api/v1/swarm/events, GET /api/v1/swarm/models, GET /api/v1/swarm/models/{id}, " +
			"GET /api/v1/swarm/models/{id}/coverage, GET /api/v1/swarm/models/{id}/history, GET /api/v1/swarm/servers, GET /api/v1/swarm/servers/{peer_id}, GET /livez, GET /openapi.json, GET /openapi.yaml, GET /readyz, GET /version",
		"guests": inference, "public": inference,
		"admin": "DELETE /api/v1/adapters/{name}, DELETE /api/v1/keys/{key}, DELETE /api/v1/operations/{id}, DELETE /api/v1/peers/{peer_id}, DELETE /api/v1/peers/{peer_id}/ban, DELETE /api/v1/sessions/{id}, GET /api/v1/keys, GET /api/v1/logs, GET /api/v1/logs/level, GET /api/v1/node/config, GET /api/v1/operations, GET /api/v1/operations/{id}, GET /api/v1/operations/{id}/events, " +
			"PATCH /api/v1/node/config, POST /api/v1/adapters, POST /api/v1/invitations, POST /api/v1/keys, POST /api/v1/node/benchmark, POST /api/v1/node/drain, POST /api/v1/node/rebalance, POST /api/v1/node/restart, POST /api/v1/node/resume, POST /api/v1/node/shutdown, POST /api/v1/peers, POST /api/v1/peers/{peer_id}/ping, " +
			"PUT /api/v1/logs/level, PUT /api/v1/peers/{peer_id}/ban",
		"scope admin": "DELETE /api/v1/keys/{key}, GET /api/v1/keys, GET /api/v1/logs, GET /api/v1/logs/level, GET /api/v1/node/config, PATCH /api/v1/node/config, POST /api/v1/invitations, POST /api/v1/keys, PUT /api/v1/logs/level",
	}
	for name, list := range lists {
		slices.Sort(list)
		if got := strings.Join(list, ", "); got != want[name] {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want[name])
		}
	}
	if to, _ := rules.of("GET", "/nowhere"); !to.token || to.guests {
		t.Errorf("what is not in the contract is open: %+v", to)
	}
}
