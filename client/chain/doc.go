// Package chain decides for one session what its client does next: which rows it sends
// where, when a stage counts as lost and whose fault that is, how long it waits, and how a
// chain is made whole again. [Machine.Step] takes one event and the time and returns
// actions; package client carries them out: streams, embedding, buffers, the memory of the
// journals. There is no clock, no stream, no goroutine and no lock in here.
//
//	streams, timer, caller --event--> Machine.Step --actions--> client --event--> ...
//
// A re-route goes through phases: pausing, planning, dialling, placing (every stage is told
// its place in a new epoch), feeding (new stages get the history they lack), whole.
//
// What a stage is dropped for, and what is observed of its server, is listed in guilt.go
// and late.go and nowhere else.
package chain
