// Package share passes files on between peers: objects, each named by the tree of its bytes,
// in pieces of 1 MiB that are checked as they come, from several peers at once.
//
//	Bundle   files that belong together: names, sizes, trees; itself an object
//	Store    what this node gives, whole or in part
//	Server   gives pieces, within budgets and at a pace that yields to other work
//	Client   gets pieces: asks several holders, rarest pieces first, and blames who lies
//
// It knows bytes and hashes, not models, keeps nothing on a disk, and opens no connection: the
// caller dials, writes down what comes, and says who may be asked. Decisions of order are in
// a queue of their own, without clock or network.
package share
