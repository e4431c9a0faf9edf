// Package hub fetches models from a model hub (the Hugging Face Hub, or what speaks its
// protocol) into the cache folder that the hub's own Python client uses, so that either
// finds what the other has fetched.
//
// Whole files lie where the Python client expects them: blobs by hash, snapshots of links,
// refs. Weight files may also lie there in part, beside them in a folder of whorl's own, as
// sparse files with a map of what is there: a server that holds 4 of 80 blocks fetches the
// bytes of those. A part becomes a blob when it is complete and its hash is right.
//
// All outgoing HTTP of a node stays here. The package knows names, hashes and bytes, not
// what a tensor is.
package hub
