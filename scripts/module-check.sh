#!/usr/bin/env bash
# Publish the commit's module under another path, in a folder; then a module of somebody else fetches it
# from there, and runs the example of package node. Everything is compiled once more: minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
path=${1:-example.org/whorl}
version=v0.0.1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

go run ./internal/release -module "$path" -version "$version" -time "$(git log -1 --format=%ct)" -out "$work/tree"
du -sh "$work/tree" | cut -f1

mkdir "$work/user"
cp go.sum "$work/user/"
cat > "$work/user/go.mod" <<MOD
module example.net/user

go $(go mod edit -json | sed -n 's/.*"Go": "\(.*\)".*/\1/p')

require $path $version
MOD
cache=$(go env GOMODCACHE)
export GOPROXY="file://$work/tree,file://$cache/cache/download,$(go env GOPROXY)"
export GOMODCACHE="$work/cache" GOFLAGS="-mod=mod" GONOSUMDB="$path" GOWORK=off
example=$PWD/node/example_test.go
cd "$work/user"
go mod download "$path"
dir=$(go list -m -f '{{.Dir}}' "$path")
echo "package user" > user.go
sed -e 's#^package node_test#package user#' -e "s#\"whorl/node\"#\"$path/node\"#" -e "s#\"\.\./internal#\"$dir/internal#" "$example" > user_test.go
grep -q "$path/node" user_test.go
grep -q "$dir/internal" user_test.go
go mod tidy
go test -count=1 -v -run Example . 2>&1 | grep -v level=
echo "module-check ok: $path"
