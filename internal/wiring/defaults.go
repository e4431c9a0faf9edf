package wiring

import (
	"whorl/api"
	"whorl/client"
	"whorl/server"
	"whorl/swarm/balance"
	"whorl/swarm/p2p"
	"whorl/swarm/trust"
)

// Defaults sets what holds where nobody says otherwise, for the command line and for programs alike. Everything
// else is zero.
func (f *SwarmOptions) Defaults() { f.Swarm = "main" }

// Defaults are explained at SwarmOptions.
func (f *NodeOptions) Defaults() {
	f.SwarmOptions.Defaults()
	f.UpdatePeriod = UpdatePeriod
	f.Relay.Defaults()
}

// Defaults are explained at SwarmOptions.
func (f *RelayOptions) Defaults() {
	f.Limits = p2p.DefaultRelayLimits()
	f.Rate, f.PeerRate = Size(f.Limits.Rate), Size(f.Limits.PeerRate)
}

// Defaults are explained at SwarmOptions; each kind of node has addresses of its own.
func (f *HTTPOptions) Defaults(http, admin string) {
	limits := api.DefaultLimits()
	f.HTTP, f.Admin = http, admin
	f.UserSockets, f.UserCache, f.Answers = limits.Sockets, limits.UserCache, limits.Answers
	f.Residual, f.Verify, f.Audit = residualDefault, 1, trust.DefaultAuditRates().Steady
}

// residualDefault keeps rows between blocks as they are.
const residualDefault = "f32"

// Defaults are explained at SwarmOptions.
func (f *ComputeOptions) Defaults() { f.Device, f.Tier = "cpu", "auto" }

// Defaults are explained at SwarmOptions.
func (f *ModelOptions) Defaults() {
	f.DType, f.Quant, f.KVDType = "auto", "none", "f32"
	f.Source = Sources{FromCache, FromSwarm, FromHub}
}

// Defaults are explained at SwarmOptions.
func (f *CapOptions) Defaults() {
	def := server.DefaultConfig()
	f.Sessions, f.PeerSessions, f.PrefixSessions = def.MaxSessions, def.PeerSessions, def.PrefixSessions
	f.PeerCache, f.PrefixCache = def.PeerCache, def.PrefixCache
	f.Lease, f.Rest = def.Timeouts.Lease, def.Timeouts.Rest
}

// Defaults are explained at SwarmOptions.
func (f *MoveOptions) Defaults() {
	def := balance.DefaultConfig()
	f.Quality, f.Check = def.Quality, def.Check
}

// Defaults are explained at SwarmOptions.
func (f *PassOptions) Defaults() {
	def := server.DefaultConfig()
	f.On, f.Rows, f.Most, f.Timeout = true, def.Passes.Rows, def.Passes.Most, def.Timeouts.Pass
}

// Defaults are explained at SwarmOptions.
func (f *Server) Defaults() {
	def := server.DefaultConfig()
	f.Node.Defaults()
	f.HTTP.Defaults(DefaultHTTP, DefaultAdmin)
	f.Model.Defaults()
	f.Compute.Defaults()
	f.Moves.Defaults()
	f.Caps.Defaults()
	f.Passes.Defaults()
	f.StepRows = def.StepRows
	f.MaxWait, f.Idle, f.Session, f.JoinDelay = def.Timeouts.Cache, def.Timeouts.Idle, def.Timeouts.Session, def.Balance.Settle
	f.MayShare, f.Throughput, f.Yield, f.Compression = true, "auto", "auto", "none"
}

// Defaults are explained at SwarmOptions.
func (f *Gateway) Defaults() {
	f.Node.Defaults()
	f.HTTP.Defaults(DefaultHTTP, DefaultAdmin)
	f.Model.Defaults()
	f.Compute.Defaults()
}

// Defaults are explained at SwarmOptions.
func (f *Bootstrap) Defaults() {
	f.Node.Defaults()
	f.HTTP.Defaults(Off, BootstrapAdmin)
	f.Every = StatusEvery
}

// Defaults are explained at SwarmOptions.
func (f *AskOptions) Defaults() {
	f.Swarm.Defaults()
	f.Model.Defaults()
	f.Compute.Defaults()
	f.Activations, f.Residual, f.Verify = "auto", residualDefault, 1
	f.StepTime = client.DefaultTimeouts().Step
}
