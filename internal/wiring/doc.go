// Package wiring puts whole nodes together from the parts: a bootstrap, a server, a gateway, and whoever only
// asks. Options go in (Server, Gateway, Bootstrap, AskOptions), and their Run is the life of a node: ports,
// home folder, place in the swarm, model, HTTP, and the end of all of it with a context.
//
// It reads no flags, no config file and no environment: cmd/whorl does, and programs that embed a node use
// package node. Errors name options as the flags of whorl do. What is computed, decided and served is the
// other packages' work.
package wiring
