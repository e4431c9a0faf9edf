// Package budget shares out what a node has little of (bytes, streams, connections, turns to
// be answered) among peers that it does not know. What is taken is taken before memory is.
//
// What one holder may have shrinks with the square of what is still free, so that whoever
// comes new finds room however much those before it took ([Share]). Since identities are free the rule holds for address
// prefixes too. Prefixes are wide enough to catch a subnet, and their share leaves room for
// the many machines behind one NAT.
//
// It knows nothing of streams or files, and who somebody is it is told.
package budget
