#!/usr/bin/env bash
# Installs what the tests need and says what it could not. A test whose need is missing
# skips with a line that says what was not proven.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v chromium >/dev/null || missing+=(chromium)
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing+=(postgresql)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]} ..." >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "not installed: ${missing[*]}: install them with your package manager (Debian: sudo apt-get install ${missing[*]}); tests that need them are skipped" >&2
  fi
fi
if command -v npm >/dev/null; then
  if [ ! -d internal/e2e/browser/node_modules/playwright-core ]; then
    (cd internal/e2e/browser && npm ci --no-audit --no-fund --loglevel=error)
  fi
else
  echo "not installed: npm, so the dashboard is not tested in a browser" >&2
fi
scripts/get-model.sh >/dev/null
