#!/usr/bin/env bash
# What a reviewer should not have to look for: generated files are up to date, the code is
# formatted and vetted, the house rules hold, no data races in the concurrent packages.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== generated files"
before=$(git status --porcelain)
go generate ./...
after=$(git status --porcelain)
if [ "$before" != "$after" ]; then
  echo "generated files are not up to date: run make generate and commit:" >&2
  git --no-pager diff --stat >&2
  exit 1
fi

echo "== format"
unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
  echo "not formatted: $unformatted" >&2
  exit 1
fi

echo "== vet"
go vet ./...
go vet -tags e2e ./internal/e2e ./internal/natlab
GOARCH=arm64 go vet ./tensor/... ./model/...
go vet -tags purego ./tensor/...
# What the release ships for, and FreeBSD beside; tests are checked on one processor of each.
for target in linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 freebsd/amd64; do
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build ./...
done
GOOS=darwin GOARCH=arm64 go vet ./...
GOOS=windows GOARCH=amd64 go vet ./...
go mod tidy -diff

echo "== house rules"
go test -count=1 ./internal/lint
if command -v golangci-lint >/dev/null; then
  golangci-lint run
else
  echo "golangci-lint is not installed: internal/lint and vet have checked what they can"
fi

echo "== races"
go test -race -timeout 20m ./client/... ./server/... ./swarm/... ./api/... ./web/... ./store/...
# A timer of a synctest bubble that is due when it is armed runs on the thread that arms it, with the
# race context of the bubble, which other threads use meanwhile: that crashes the detector (go1.26.8,
# SIGSEGV in runtime.(*timer).modify). So code under these tests arms none with a wait of 0.
go test -race -timeout 20m ./internal/swarmtest
echo "check ok"
