#!/usr/bin/env bash
# Runs every fuzz target for the given time each (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
for file in $(git grep -lE '^func Fuzz' -- '*_test.go'); do
  for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2); do
    echo "== $(dirname "$file") $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" "./$(dirname "$file")"
  done
done
