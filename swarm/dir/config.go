package dir

import (
	"log/slog"
	"time"
)

// Config of a Directory; DefaultConfig has sensible values.
type Config struct {
	Swarm     string   // name of the swarm: part of the DHT's protocol id
	Bootstrap []string // first peers, with /p2p; nil founds a swarm
	// Expiration is how long a record of ours lives without renewal: a killed server is
	// gone from every view after it at the latest.
	Expiration time.Duration
	// Refresh is how often records are exchanged with tellers.
	Refresh time.Duration
	// Lonely is how long a node may have no peer before it dials the first peers again.
	Lonely time.Duration
	Log    *slog.Logger
}

// DefaultConfig renews within seconds, which costs a few kB per node and teller.
func DefaultConfig() Config {
	return Config{Swarm: "main", Expiration: 60 * time.Second, Refresh: 3 * time.Second, Lonely: 15 * time.Second, Log: slog.Default()}
}

const (
	// tellers is how many nodes are asked per refresh: a lie by omission needs all three.
	tellers = 3
	// fanout is how many connected peers hear of a new record of ours at once.
	fanout = 8
	// exchangeTimeout bounds one exchange.
	exchangeTimeout = 5 * time.Second
	// pingTimeout bounds the ping that decides whether a lost peer is suspected.
	pingTimeout = 3 * time.Second
	// pingsPerRefresh bounds the round trips measured per refresh.
	pingsPerRefresh = 16
	// provideEvery and provideValidity keep provider records alive through a missed round.
	provideEvery    = 4 * time.Minute
	provideValidity = 10 * time.Minute
	// findTimeout bounds a search in the DHT, findEvery its frequency, findLimit its size.
	findTimeout = 10 * time.Second
	findEvery   = time.Minute
	findLimit   = 20
	// warnEvery limits the lines about one peer's bad records.
	warnEvery = 10 * time.Minute
)
