package web

import (
	"slices"
	"time"

	"whorl/store"
	"whorl/swarm"
)

// thinner leaves out of samples what was written a short time ago and has not changed.
type thinner struct {
	heartbeat time.Duration
	coverage  map[swarm.UID]store.Coverage
	servers   map[serverKey]store.Observation
}

// sample gives what is to be written of a snapshot.
func (t *thinner) sample(s *snapshot) (coverage []store.Coverage, observations []store.Observation) {
	for i, v := range s.views {
		c := s.coverage[i]
		c.At = s.at
		if last, ok := t.coverage[c.Model]; !ok || s.at.Sub(last.At) >= t.heartbeat || !sameCoverage(&last, &c) {
			coverage = append(coverage, c)
		}
		for j := range v.Servers {
			o := store.Observe(&v.Servers[j], s.at)
			if last, ok := t.servers[serverKey{o.Model, o.Peer}]; !ok || s.at.Sub(last.At) >= t.heartbeat || !sameObservation(&last, &o) {
				observations = append(observations, o)
			}
		}
	}
	return coverage, observations
}

// written remembers what is in the store now, and forgets what left the swarm.
func (t *thinner) written(s *snapshot, coverage []store.Coverage, observations []store.Observation) {
	for _, c := range coverage {
		t.coverage[c.Model] = c
	}
	for _, o := range observations {
		t.servers[serverKey{o.Model, o.Peer}] = o
	}
	for uid := range t.coverage {
		if _, _, ok := s.model(uid); !ok {
			delete(t.coverage, uid)
		}
	}
	for key := range t.servers {
		v, _, _ := s.model(key.model)
		if _, ok := v.Server(key.peer); !ok {
			delete(t.servers, key)
		}
	}
}

// sameCoverage compares all but times and free cache, which changes with every session.
func sameCoverage(a, b *store.Coverage) bool {
	return slices.Equal(a.Counts, b.Counts) && a.Servers == b.Servers &&
		sameNumber(a.Bottleneck, b.Bottleneck) && sameNumber(a.SessionTPS, b.SessionTPS)
}

func sameObservation(a, b *store.Observation) bool {
	return a.Span == b.Span && a.State == b.State && a.Throughput == b.Throughput && a.Version == b.Version && a.PublicName == b.PublicName &&
		a.Relay == b.Relay && a.CacheTotal == b.CacheTotal && sameNumber(a.Rates.InferenceRPS, b.Rates.InferenceRPS) &&
		sameNumber(a.Rates.ForwardRPS, b.Rates.ForwardRPS) && sameNumber(a.Rates.NetworkRPS, b.Rates.NetworkRPS)
}

func sameNumber(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }
