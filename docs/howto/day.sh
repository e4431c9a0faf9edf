#!/usr/bin/env bash
# A day of a small swarm by curl and jq: every line fails if what it asks for is not so (-f, jq -e).
# BOOTSTRAP, A, B and GATEWAY are admin listeners, HTTP is the gateway's public one, MODEL is what is served, ADAPTER a folder
# with a LoRA adapter for it. A test runs this file (internal/e2e).
set -euo pipefail
json='Content-Type: application/json'
v1=api/v1
adapter=${ADAPTER##*/}

# Morning: is everybody there?
for node in "$BOOTSTRAP" "$A" "$B" "$GATEWAY" "$HTTP"; do
  curl -sf "$node/livez" | jq -e '.status == "ok"'
  curl -sf "$node/readyz" | jq -e '[.checks[].ok] | all'
done
curl -sf "$HTTP/version" | jq -e '.name == "whorl"'
curl -sf "$HTTP/openapi.json" | jq -e '.openapi'
curl -sf "$BOOTSTRAP/$v1/node" | jq -e '.roles == ["bootstrap"]'
curl -sf "$BOOTSTRAP/$v1/peers" | jq -e '.items | length >= 3'
curl -sf "$A/$v1/node" | jq -e '.state == "online" and .trouble == null'
curl -sf "$B/$v1/node" -H 'Accept: text/plain'
peer=$(curl -sf "$B/$v1/node" | jq -re .peer_id)
address=$(curl -sf "$B/$v1/node" | jq -re '.addrs[0]')
curl -sf "$HTTP/$v1/swarm/models/$MODEL" | jq -e '.state == "healthy" and .missing == []'
curl -sf "$HTTP/$v1/swarm/models/$MODEL/coverage" | jq -e '[.blocks[].online] | min >= 1'
curl -sf "$HTTP/$v1/swarm/servers?model=$MODEL" | jq -e '.items | length == 2'
curl -sf "$HTTP/$v1/swarm/servers/$peer" | jq -e '.items[0].state == "online"'
curl -sf "$GATEWAY/$v1/swarm/models/$MODEL/route" -H "$json" -d '{"positions": 64}' -H 'Accept: text/plain'
curl -sf "$HTTP/$v1/swarm/models/$MODEL/history?from=1h" -H 'Accept: text/plain'
curl -sf "$HTTP/$v1/swarm/events?limit=5" | jq -e '.items'
curl -sf "$A/$v1/blocks" | jq -e '[.items[].state == "loaded"] | all'
curl -sf "$A/$v1/blocks/0" | jq -e '.bytes > 0'
curl -sf "$A/$v1/cache" | jq -e '.left_tokens > 0'
curl -sf "$A/metrics" -o /dev/null

# Users come.
curl -sf "$HTTP/v1/models" | jq -e --arg m "$MODEL" '[.data[].id] | index($m) != null'
curl -sf "$HTTP/v1/completions" -H "$json" -d "{\"model\": \"$MODEL\", \"prompt\": \"a\", \"max_tokens\": 4}" | jq -e '.usage.completion_tokens > 0'
curl -sf "$HTTP/tokenize" -H "$json" -d '{"prompt": "a"}' | jq -e '.count > 0'
curl -sf "$HTTP/v1/embeddings" -H "$json" -d '{"input": "a"}' | jq -e '.data[0].embedding | length > 0'
curl -sf "$GATEWAY/$v1/sessions" | jq -e '.items == []'
curl -sf "$GATEWAY/$v1/peers/standings" | jq -e '[.items[].counts.served > 0] | any'
last=$(curl -sf "$A/$v1/events?wait=0s" | jq -re .last)

# Something is looked into: the log says more, and less again.
curl -sf -X PUT "$A/$v1/logs/level" -H "$json" -d '{"level": "debug"}' | jq -e '.level == "debug"'
curl -sf "$A/$v1/logs?wait=0s&level=info" | jq -e '.items | length > 0'
curl -sf -X PATCH "$A/$v1/node/config" -H "$json" -d '{"log-level": null}' | jq -e '[.items[] | select(.name == "log-level")][0].value == "info"'

# An adapter for those who asked for it.
curl -sf -X POST "$A/$v1/adapters?wait=1m" -H "$json" -d "{\"source\": \"$ADAPTER\"}" | jq -e '.state == "done"'
curl -sf "$A/$v1/adapters" | jq -e --arg a "$adapter" '[.items[].name] | index($a) != null'
curl -sf -X PATCH "$GATEWAY/$v1/node/config" -H "$json" -d "{\"allow-adapters\": [\"$adapter\"]}" | jq -e '.items'
curl -sf --retry 30 --retry-delay 1 --retry-all-errors "$HTTP/v1/completions" -H "$json" -d "{\"model\": \"$MODEL:$adapter\", \"prompt\": \"a\", \"max_tokens\": 2}" | jq -e '.choices[0]'

# How fast is it, and what does it say of itself?
curl -sf -X POST "$A/$v1/node/benchmark?wait=1m" -H "$json" -d '{"seconds": 0.2}' | jq -e '.result.rates.forward_rps > 0'
etag=$(curl -sf "$A/$v1/node/config" -o /dev/null -w '%header{etag}')
curl -sf -X PATCH "$A/$v1/node/config" -H "If-Match: $etag" -H "$json" -d '{"public-name": "ada", "max-sessions": 64}' | jq -e '.items'
curl -sf "$A/$v1/node" | jq -e '.public_name == "ada"'

# B gets a new disk: it is drained, comes back, and its blocks are loaded anew.
curl -sf -X POST "$B/$v1/node/drain?wait=1m" -H "$json" -d '{"reason": "new disk", "deadline_s": 5}' | jq -e '.state == "done"'
curl -sf "$B/$v1/node" | jq -e '.state == "draining"'
curl -sf "$HTTP/v1/completions" -H "$json" -d "{\"model\": \"$MODEL\", \"prompt\": \"b\", \"max_tokens\": 4}" | jq -e '.choices[0]'
curl -sf -X POST "$B/$v1/node/resume" | jq -e '.done'
operation=$(curl -sf -X POST "$B/$v1/node/restart" | jq -re .id)
curl -sf "$B/$v1/operations/$operation?wait=1m" | jq -e '.state == "done"'
curl -sf "$B/$v1/operations/$operation/events" -o /dev/null
curl -sf "$B/$v1/operations" -H 'Accept: text/plain'

# It moves to where it is needed.
curl -sf -X POST "$B/$v1/node/rebalance" -H "$json" -d '{"dry_run": true}' | jq -e '.from and .to and .reason'
curl -sf -X POST "$B/$v1/node/rebalance?wait=1m" -H "$json" -d '{"to": "4:8"}' | jq -e '.result.to == "4:8"'
curl -sf "$B/$v1/node" | jq -e '.span == {"start": 4, "end": 8}'

# It is too slow for this gateway, for a while; then it is forgiven.
curl -sf -X PUT "$GATEWAY/$v1/peers/$peer/ban" -H "$json" -d '{"seconds": 600, "reason": "too slow"}'
curl -sf "$GATEWAY/$v1/peers/standings" | jq -e --arg p "$peer" '[.items[] | select(.peer_id == $p and .avoid.never)] | length == 1'
curl -sf "$HTTP/v1/completions" -H "$json" -d "{\"model\": \"$MODEL\", \"prompt\": \"c\", \"max_tokens\": 4}" | jq -e '.choices[0]'
curl -sf -X DELETE "$GATEWAY/$v1/peers/$peer/ban"
curl -sf -X POST "$GATEWAY/$v1/peers/$peer/ping" | jq -e '.rtt_ms >= 0'
curl -sf -X POST "$A/$v1/peers" -H "$json" -d "{\"addr\": \"$address\"}" | jq -e --arg p "$peer" '.peer_id == $p'
curl -sf -X DELETE "$A/$v1/peers/$peer"
curl -sf "$A/$v1/events?wait=0s&since=$last&types=operation" | jq -e '[.items[].data.kind] | index("benchmark") != null'

# Friends are invited; a line that did not get through is sent again, and does nothing twice.
word=$(curl -sf -X POST "$GATEWAY/$v1/invitations" -H 'Idempotency-Key: friends' | jq -re .invitation)
curl -sf -X POST "$GATEWAY/$v1/invitations" -H 'Idempotency-Key: friends' | jq -e --arg w "$word" '.invitation == $w'

# Evening: the adapter goes, and then everybody.
curl -sf -X DELETE "$A/$v1/adapters/$adapter?wait=1m" | jq -e '.state == "done"'
for node in "$B" "$GATEWAY" "$A" "$BOOTSTRAP"; do
  curl -sf -X POST "$node/$v1/node/shutdown" | jq -e '.kind == "shutdown"'
done
