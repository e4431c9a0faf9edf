// Package sysmem says how much memory this process can take without swapping and without
// being ended for it: what the system has free, and no more than the control groups of the
// process leave it.
package sysmem

// Free is memory that can be taken.
type Free struct {
	Bytes int64
	Limit string // what leaves no more, for people; "": nothing but the system's free memory
}
