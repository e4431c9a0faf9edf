// Package sim plays swarms in virtual time with the product's own policy: balance decides
// where servers go, route how sessions run, and health who is steady. What a scenario says of
// machines, churn, links and load is drawn from its seed, alike for every policy, so that
// policies are compared on the same traces.
//
// It does not run models, nodes or networks. Up to maxViews servers each have a directory of their own, of the product's own code
// (dir.Book, gossip.go); above that one delayed view is shared by all (views.go). Sessions go through chains that route
// plans, and wait for each other at servers as in a queueing network (traffic.go, flow.go).
package sim
