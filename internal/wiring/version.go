package wiring

// BuildVersion is what records, requests to hubs and remembered speeds call this program. A program sets
// it, if at all, before it starts anything.
var BuildVersion = "dev"
