#!/usr/bin/env bash
# Shows that a release can be made again: twice from this commit, in clones in two folders, the
# second time with an empty build cache, and the checksums are compared.
#   release-check.sh [OS/ARCH,...]    default: linux/amd64,windows/amd64
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${1:-linux/amd64,windows/amd64}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
git clone -q . "$work/one"
git clone -q . "$work/a-folder-with-another-name"
make --no-print-directory -C "$work/one" release TARGETS="$targets"
GOCACHE=$work/cache make --no-print-directory -C "$work/a-folder-with-another-name" release TARGETS="$targets"
diff "$work/one/dist/SHA256SUMS" "$work/a-folder-with-another-name/dist/SHA256SUMS"
cat "$work/one/dist/SHA256SUMS"
echo "both releases are equal"
