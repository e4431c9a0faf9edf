#!/usr/bin/env bash
# A whole swarm on this machine: a bootstrap, three servers, a gateway with the dashboard.
# It streams one answer, says where to look, and runs until Ctrl-C.
#   MODEL=path     another model (folder or .gguf); give SPANS with it
#   SPANS="0:8"    the blocks of each server
#   HTTP=addr      where the gateway listens; default 127.0.0.1:8300, or a free port
set -euo pipefail
cd "$(dirname "$0")/.."
whorl=bin/whorl
spans=${SPANS:-"0:10 10:20 20:30"}
if [ -n "${MODEL:-}" ]; then
  model=$MODEL
  if [ -z "${SPANS:-}" ]; then spans=all; fi
else
  model=$(scripts/get-model.sh)
fi

http=${HTTP:-127.0.0.1:8300}
if [ -z "${HTTP:-}" ] && (exec 3<>/dev/tcp/127.0.0.1/8300) 2>/dev/null; then
  http=127.0.0.1:0
fi

work=$(mktemp -d)
export WHORL_DATA_DIR=$work/data
pids=()
finish() {
  trap - EXIT INT TERM
  if [ ${#pids[@]} -gt 0 ]; then
    echo; echo "stopping the swarm ..."
    # The gateway first, the bootstrap last.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill -TERM "${pids[i]}" 2>/dev/null || true; done
    for ((i = 0; i < 80; i++)); do
      alive=0
      for p in "${pids[@]}"; do if kill -0 "$p" 2>/dev/null; then alive=1; fi; done
      if [ $alive -eq 0 ]; then break; fi
      sleep 0.1
    done
    for p in "${pids[@]}"; do kill -KILL "$p" 2>/dev/null || true; done
    wait "${pids[@]}" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# launch NAME ARGS...: starts a node in the background, in a process group of its own so
# that Ctrl-C reaches only this script, which ends the nodes in order.
launch() {
  local name=$1
  shift
  setsid "$whorl" "$@" --ready-file "$work/$name.json" >"$work/$name.log" 2>&1 &
  pids+=($!)
}

# ready NAME: waits until the node is usable.
ready() {
  local name=$1 pid=${pids[-1]}
  for ((i = 0; i < 600; i++)); do
    if [ -f "$work/$name.json" ]; then return; fi
    if [ "${2:-}" ]; then pid=$2; fi
    if ! kill -0 "$pid" 2>/dev/null; then
      echo "$name ended early:" >&2
      tail -5 "$work/$name.log" >&2
      exit 1
    fi
    sleep 0.1
  done
  echo "$name is not usable after 60 s; its log:" >&2
  tail -5 "$work/$name.log" >&2
  exit 1
}

field() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1]))[sys.argv[2]]; print(",".join(v) if isinstance(v,list) else v)' "$work/$1.json" "$2"; }

maddr=/ip4/127.0.0.1/tcp/0
launch bootstrap bootstrap --new-swarm --host-maddrs $maddr
ready bootstrap
peers=$(field bootstrap addrs)

n=0
servers=()
for span in $spans; do
  n=$((n + 1))
  args=(serve "$model" --initial-peers "$peers" --host-maddrs $maddr --http off --admin 127.0.0.1:0 --threads 1 --public-name "server $n")
  if [ "$span" != all ]; then args+=(--block-indices "$span"); fi
  launch "server$n" "${args[@]}"
  servers+=("server$n:${pids[-1]}")
done
launch gateway gateway "$model" --initial-peers "$peers" --host-maddrs $maddr --http "$http" --admin 127.0.0.1:0
gateway_pid=${pids[-1]}
for s in "${servers[@]}"; do ready "${s%%:*}" "${s##*:}"; done
ready gateway "$gateway_pid"
url=$(field gateway http)
echo "every block is online."
echo

question="Give me three tips for a good night's sleep."
echo "> $question"
"$whorl" generate "$model" --initial-peers "$peers" --chat --prompt "$question" --max-new-tokens 96 --log-level warn

name=$(python3 -c 'import json,sys,urllib.request as u; print(json.load(u.urlopen(sys.argv[1]+"/v1/models"))["data"][0]["id"])' "$url")
cat <<EOF

dashboard   $url/
chat        $url/play
curl        curl -N $url/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"$name","stream":true,"temperature":0,"max_tokens":64,"messages":[{"role":"user","content":"Hello!"}]}'
OpenAI      base URL $url/v1, any API key
WebSocket   python3 scripts/ws.py ws://${url#http://}/api/v2/generate "Tell me a joke."
another     $whorl serve $model --initial-peers $peers --host-maddrs $maddr --http 127.0.0.1:0
logs        $work/*.log

Ctrl-C ends the swarm.
EOF
if [ -n "${ONCE:-}" ]; then exit 0; fi
while :; do
  sleep 3600 &
  wait $! || true
done
