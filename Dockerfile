# whorl in a small image. docker-compose.yml runs a laptop swarm with it.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /whorl ./cmd/whorl

FROM debian:bookworm-slim
RUN useradd --create-home --uid 10001 whorl
COPY --from=build /whorl /usr/local/bin/whorl
USER whorl
WORKDIR /home/whorl
EXPOSE 8300 31330
ENTRYPOINT ["whorl"]
