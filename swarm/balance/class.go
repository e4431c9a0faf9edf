package balance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"whorl/swarm"
)

// Adopt chooses the class in which a node joins those that serve its model already, so that
// volunteers complete each other. own is what it would serve by itself; a view belongs to the
// same model if it has its name, its size and its configuration, which the node has on disk.
// can tells whether the node's files and device can give a class.
//
// Names and classes of records are the word of strangers. Only servers that this node has
// reached count, and every address prefix has one vote, shared among its servers. The class
// with more than half of the votes is adopted. Without one the node's own class stands if
// it has any, since the files say that much; otherwise the error names the classes, and
// the operator must.
func Adopt(own swarm.Manifest, views []swarm.View, can func(swarm.Class) bool) (swarm.Class, error) {
	votes := Votes(own, views)
	total, best := 0.0, own.Class
	for _, c := range classes(votes) { // in one order, so that sums are the same everywhere
		if c != own.Class && !can(c) {
			delete(votes, c)
			continue
		}
		total += votes[c]
		if votes[c] > votes[best] {
			best = c
		}
	}
	switch {
	case total == 0 || votes[best] > total/2:
		return best, nil
	case votes[own.Class] > 0:
		return own.Class, nil
	}
	var names []string
	for _, c := range classes(votes) {
		names = append(names, fmt.Sprintf("%v (%.0f %% of the votes)", c, 100*votes[c]/total))
	}
	return swarm.Class{}, fmt.Errorf("the swarm serves %s in several classes and none by most of the networks that answer: %s", own.Name, strings.Join(names, ", "))
}

// SameModel tells whether two manifests are of models with one name and namespace, size and configuration,
// in whatever class and with whatever weights.
func SameModel(a, b swarm.Manifest) bool {
	return a.Name == b.Name && a.Namespace == b.Namespace && a.Blocks == b.Blocks && a.Hidden == b.Hidden && a.Class.ConfigHash == b.Class.ConfigHash
}

// Reached counts the servers of a view that this node has had contact with.
func Reached(v swarm.View) (n int) {
	for i := range v.Servers {
		if r := &v.Servers[i]; r.State >= swarm.Joining && !v.Hearsay(r.Peer) {
			n++
		}
	}
	return n
}

// Votes counts how many address prefixes serve the model in each class, in shares: see Adopt.
func Votes(own swarm.Manifest, views []swarm.View) map[swarm.Class]float64 {
	servers := map[string]map[swarm.Class]int{} // per prefix
	all := map[string]int{}
	for _, v := range views {
		m := v.Manifest
		if !SameModel(own, m) {
			continue
		}
		for i := range v.Servers {
			if r := &v.Servers[i]; r.State >= swarm.Joining && !v.Hearsay(r.Peer) {
				prefix := v.Reached[r.Peer]
				if servers[prefix] == nil {
					servers[prefix] = map[swarm.Class]int{}
				}
				servers[prefix][m.Class]++
				all[prefix]++
			}
		}
	}
	votes := map[swarm.Class]float64{}
	for _, prefix := range slices.Sorted(maps.Keys(servers)) {
		for c, n := range servers[prefix] {
			votes[c] += float64(n) / float64(all[prefix])
		}
	}
	return votes
}

// classes lists those that have votes, most first.
func classes(votes map[swarm.Class]float64) []swarm.Class {
	return slices.SortedFunc(maps.Keys(votes), func(a, b swarm.Class) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), strings.Compare(a.String(), b.String()))
	})
}
