package control

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/operations"
	"whorl/swarm"
)

const operationsPath = "/api/v1/operations/"

// operation is one as the contract has it. Errors have the words that any request would have got.
func operation(o operations.Operation) gen.Operation {
	out := gen.Operation{Id: o.ID, Kind: o.Kind, State: gen.OperationState(o.State), Done: o.State != operations.Running, Cancellable: o.State == operations.Running && !o.Final, Metadata: o.About, Began: o.Began.UTC(), Result: o.Result}
	if !o.Ended.IsZero() {
		ended := o.Ended.UTC()
		out.Ended = &ended
	}
	if p := o.Progress; p != (operations.Progress{}) {
		out.Progress = &gen.Progress{Done: p.Done, Total: p.Total, Unit: text(p.Unit), Note: text(p.Note)}
	}
	if o.Err != nil {
		_, body := Problem(api.Describe(failure(o)), o.ID)
		p := body.(gen.Problem)
		out.Error = &p
	}
	return out
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// failure is why an operation did not do what it was to.
func failure(o operations.Operation) error {
	if o.State == operations.Cancelled {
		return api.Refused(swarm.CodeCancelled, "%w", o.Err)
	}
	return o.Err
}

// waiting reads how long a caller waits for an end; 0 for not at all.
func waiting(wait *string) (time.Duration, error) {
	if wait == nil || *wait == "" {
		return 0, nil
	}
	long, err := time.ParseDuration(*wait)
	if err != nil || long < 0 || long > maxWait {
		return 0, api.Invalid("wait", "wait is %q: want a duration such as 30s, at most %v", api.Clip(*wait), maxWait)
	}
	return long, nil
}

// begin begins an operation, or finds the one of its kind that runs, and answers with it: at once,
// or when it has ended if the caller waits for that. about is what was asked for, in pairs.
func (a Dialect) begin(w http.ResponseWriter, r *http.Request, wait *string, spec operations.Spec, prepare func() (operations.Work, error), about ...string) {
	long, err := waiting(wait)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	if long > 0 { // before anything is begun
		leave, err := a.followers.enter(api.UserOf(r))
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		defer leave()
	}
	spec.About = map[string]string{}
	details := []any{"id", api.RequestID(r), "kind", spec.Kind}
	for i := 0; i < len(about); i += 2 {
		if about[i+1] != "" {
			spec.About[about[i]] = about[i+1]
			details = append(details, about[i], api.Clip(about[i+1]))
		}
	}
	spec.Key, spec.Of = api.KeyOf(r)
	if o, ok := a.Operations.Asked(spec.Key); ok && (o.State == operations.Running || o.State == operations.Done) && time.Since(o.Began) < api.ReplayTime {
		// It began in a run before, else api had answered.
		if o.Of != spec.Of {
			a.Fail(w, r, api.KeyReused())
			return
		}
		w.Header().Set(api.Replayed, "true")
		a.replyOperation(w, r, o, true)
		return
	}
	o, err := a.Operations.Begin(spec, prepare)
	busy := new(operations.Busy)
	switch {
	case errors.As(err, &busy) && busy.Running.Kind == spec.Kind && (spec.Final || spec.Group == ofSessions):
		o = busy.Running // to ask twice is no mistake
	case errors.As(err, &busy):
		w.Header().Set("Location", operationsPath+busy.Running.ID)
		a.Fail(w, r, api.Refused(api.CodeRunning, "%v: wait for it or cancel it, at %s", busy, operationsPath+busy.Running.ID))
		return
	case err != nil:
		a.Fail(w, r, err)
		return
	default:
		a.Log.Info("operation begun", append(details, "operation", o.ID)...)
	}
	if long > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), long)
		defer cancel()
		if o, err = a.Operations.Wait(ctx, o.ID); err != nil {
			a.Fail(w, r, err)
			return
		}
	}
	a.replyOperation(w, r, o, long > 0)
}

// replyOperation answers with an operation; with its error if it failed and the caller waited for
// its end.
func (a Dialect) replyOperation(w http.ResponseWriter, r *http.Request, o operations.Operation, waited bool) {
	w.Header().Set("Location", operationsPath+o.ID)
	switch {
	case waited && o.Err != nil:
		a.Fail(w, r, failure(o))
	case waited && o.State == operations.Done:
		writeOperation(w, r, http.StatusOK, o)
	default:
		w.Header().Set("Retry-After", "1")
		writeOperation(w, r, http.StatusAccepted, o)
	}
}

// writeOperation writes one as JSON, or as a table for who asks for that.
func writeOperation(w http.ResponseWriter, r *http.Request, status int, o operations.Operation) {
	if !wantsText(r) {
		api.WriteJSON(w, status, "application/json", operation(o))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	writeTable(w, operationTable.columns, []gen.Operation{operation(o)})
}

// ListOperations lists them, newest first.
func (a Dialect) ListOperations(w http.ResponseWriter, r *http.Request, params gen.ListOperationsParams) {
	all := a.Operations.List()
	slices.Reverse(all)
	out := make([]gen.Operation, len(all))
	for i, o := range all {
		out[i] = operation(o)
	}
	replyList(a, w, r, operationTable, out, params.Limit, params.Cursor)
}

func (a Dialect) noOperation(w http.ResponseWriter, r *http.Request, id string) {
	a.Fail(w, r, api.Refused(api.CodeNotFound, "this node has no operation %q, or none any more: GET /api/v1/operations lists them", api.Clip(id)))
}

// GetOperation tells of one.
func (a Dialect) GetOperation(w http.ResponseWriter, r *http.Request, id string, params gen.GetOperationParams) {
	long, err := waiting(params.Wait)
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	if long > 0 {
		leave, err := a.followers.enter(api.UserOf(r))
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	o, err := a.Operations.Wait(ctx, id)
	if err != nil {
		a.noOperation(w, r, id)
		return
	}
	writeOperation(w, r, http.StatusOK, o)
}

// CancelOperation asks one to end.
func (a Dialect) CancelOperation(w http.ResponseWriter, r *http.Request, id string) {
	o, err := a.Operations.Cancel(id)
	switch {
	case errors.Is(err, operations.ErrFinal):
		a.Fail(w, r, api.Refused(api.CodeFinal, "the operation %s (%s) cannot be cancelled once it has begun", o.ID, o.Kind))
	case err != nil:
		a.noOperation(w, r, id)
	case o.State != operations.Running:
		w.Header().Set("Location", operationsPath+o.ID)
		writeOperation(w, r, http.StatusOK, o)
	default:
		a.Log.Info("operation is to end", "id", api.RequestID(r), "kind", o.Kind, "operation", o.ID)
		a.replyOperation(w, r, o, false)
	}
}

// FollowOperation streams its states until it ends.
func (a Dialect) FollowOperation(w http.ResponseWriter, r *http.Request, id string) {
	if _, _, err := a.Operations.Get(id); err != nil {
		a.noOperation(w, r, id)
		return
	}
	leave, err := a.followers.enter(api.UserOf(r))
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	defer leave()
	out := a.EventStream(w)
	beat := time.NewTicker(a.Limits.KeepAlive)
	defer beat.Stop()
	for out.Err == nil {
		o, next, err := a.Operations.Get(id)
		if err != nil {
			return // forgotten while it was followed
		}
		if o.State != operations.Running {
			out.SendNamed(string(o.State), operation(o))
			return
		}
		out.SendNamed("progress", operation(o))
		for waits := true; waits && out.Err == nil; {
			select {
			case <-next:
				waits = false
			case <-beat.C:
				out.Comment()
			case <-r.Context().Done():
				return
			}
		}
	}
}
