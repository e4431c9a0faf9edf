#!/usr/bin/env bash
# Runs the test rings that fit CI: unit and integration tests, then the built binary end
# to end. Prints what was skipped: a skip is something not proven.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p artifacts
make --no-print-directory build

run() {
  local name=$1
  shift
  echo "== $name" >&2
  local status=0
  "$@" >"artifacts/$name.json" || status=$?
  python3 scripts/summary.py "artifacts/$name.json" || status=1
  return $status
}

failed=0
run unit go test -json ./... || failed=1
export WHORL_BIN=$PWD/bin/whorl
run e2e go test -json -tags e2e -count=1 -timeout 30m ./internal/e2e || failed=1
run natlab go test -json -tags e2e -count=1 -timeout 10m ./internal/natlab || failed=1
exit $failed
