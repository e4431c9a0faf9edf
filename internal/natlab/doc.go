// Package natlab is an internet for tests: hosts in network namespaces of their own, joined
// by a router in user space that translates, filters, delays and loses packets as routers of
// homes and carriers do. Kernels differ in what they can do (the kind of NAT that nftables
// makes is one, netem is often missing), and tests should not. It needs root, namespaces and
// TUN devices, and touches nothing outside of the namespaces, so that its addresses may be
// such as count as public.
package natlab
