package control

import (
	"fmt"
	"net/http"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/operations"
	"whorl/swarm"
)

// Groups of operations, of which one runs at a time.
const (
	ofSessions = "sessions" // who may come
	ofBlocks   = "blocks"   // what is held and computed
	ofAdapters = "adapters" // with the name of one: each is one's own business
	ofProcess  = "process"
)

// optional reads a body where there is one.
func (a Dialect) optional(w http.ResponseWriter, r *http.Request, schema string, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return a.ReadJSON(w, r, schema, into)
}

// number is a number that was given, as text.
func number[T int | float64](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// DrainNode stops new sessions; a body is optional.
func (a Dialect) DrainNode(w http.ResponseWriter, r *http.Request, params gen.DrainNodeParams) {
	var req gen.DrainRequest
	if err := a.optional(w, r, "DrainRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	reason, within := api.Value(req.Reason, ""), time.Duration(api.Value(req.DeadlineS, 0))*time.Second
	a.begin(w, r, params.Wait, operations.Spec{Kind: "drain", Group: ofSessions}, func() (operations.Work, error) {
		return a.Tasks.Drain(reason, within)
	}, "reason", reason, "deadline_s", number(req.DeadlineS))
}

// ResumeNode takes sessions again.
func (a Dialect) ResumeNode(w http.ResponseWriter, r *http.Request, params gen.ResumeNodeParams) {
	if _, err := waiting(params.Wait); err != nil { // before anything is changed
		a.Fail(w, r, err)
		return
	}
	a.Operations.Stop(r.Context(), ofSessions) // a drain would wait for ever
	a.begin(w, r, params.Wait, operations.Spec{Kind: "resume", Group: ofSessions}, func() (operations.Work, error) {
		return nil, a.Config.Control.Resume()
	})
}

// RestartNode loads the blocks anew.
func (a Dialect) RestartNode(w http.ResponseWriter, r *http.Request, params gen.RestartNodeParams) {
	a.begin(w, r, params.Wait, operations.Spec{Kind: "restart", Group: ofBlocks}, a.Tasks.Restart)
}

// RebalanceNode decides anew which blocks the node should hold; a body is optional.
func (a Dialect) RebalanceNode(w http.ResponseWriter, r *http.Request, params gen.RebalanceNodeParams) {
	var req gen.RebalanceRequest
	if err := a.optional(w, r, "RebalanceRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	var to *swarm.Span
	if req.To != nil {
		span, err := swarm.ParseSpan(*req.To)
		if err != nil {
			a.Fail(w, r, api.Invalid("to", "to: %w", err))
			return
		}
		to = &span
	}
	if api.Value(req.DryRun, false) {
		if to != nil {
			a.Fail(w, r, api.Invalid("to", "a dry run says what the server would decide: leave out to, or dry_run"))
			return
		}
		d, err := a.Config.Control.Consider(r.Context())
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		api.Reply(w, d)
		return
	}
	a.begin(w, r, params.Wait, operations.Spec{Kind: "rebalance", Group: ofBlocks}, func() (operations.Work, error) {
		return a.Tasks.Rebalance(to)
	}, "to", api.Value(req.To, ""))
}

// benchmarkFor is how long each kind of step is measured if nobody says.
const benchmarkFor = time.Second

// BenchmarkNode measures the blocks; a body is optional.
func (a Dialect) BenchmarkNode(w http.ResponseWriter, r *http.Request, params gen.BenchmarkNodeParams) {
	var req gen.BenchmarkRequest
	if err := a.optional(w, r, "BenchmarkRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	each := time.Duration(api.Value(req.Seconds, benchmarkFor.Seconds()) * float64(time.Second))
	a.begin(w, r, params.Wait, operations.Spec{Kind: "benchmark", Group: ofBlocks}, func() (operations.Work, error) {
		return a.Tasks.Benchmark(each)
	}, "seconds", number(req.Seconds))
}

// ShutdownNode begins the end of the process.
func (a Dialect) ShutdownNode(w http.ResponseWriter, r *http.Request) {
	a.begin(w, r, nil, operations.Spec{Kind: "shutdown", Group: ofProcess, Final: true}, a.Tasks.Shutdown)
}
