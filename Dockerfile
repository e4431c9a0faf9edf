# whorl in a small image, from a binary of `make release` (a few seconds), or with
# `--target source` from this folder (minutes). It runs as a user without rights, needs no
# writable root, and writes to /data, /models and /swarm alone.
ARG BASE=gcr.io/distroless/static-debian12:nonroot

FROM golang:1.26 AS build
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /whorl ./cmd/whorl

FROM ${BASE} AS base
# Volumes that are mounted here begin with this owner.
COPY --chown=65532:65532 deploy/empty/data /data
COPY --chown=65532:65532 deploy/empty/cache /models
COPY --chown=65532:65532 deploy/empty/swarm /swarm
ENV WHORL_DATA_DIR=/data WHORL_CACHE_DIR=/models
USER 65532:65532
WORKDIR /data
EXPOSE 8300 31330/tcp 31330/udp
ENTRYPOINT ["/usr/local/bin/whorl"]

FROM base AS source
COPY --from=build /whorl /usr/local/bin/whorl

FROM base AS release
ARG TARGETARCH
COPY dist/bin/linux_${TARGETARCH}/whorl /usr/local/bin/whorl
