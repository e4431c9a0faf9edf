package control

import (
	"net/http"
	"slices"

	"whorl/api/gen"
	"whorl/internal/operations"
)

// ListAdapters lists the adapters that the node's blocks hold.
func (a Dialect) ListAdapters(w http.ResponseWriter, r *http.Request, params gen.ListAdaptersParams) {
	replyList(a, w, r, adapterTable, slices.Clone(a.Adapting.Adapters()), params.Limit, params.Cursor)
}

// LoadAdapter loads one.
func (a Dialect) LoadAdapter(w http.ResponseWriter, r *http.Request, params gen.LoadAdapterParams) {
	var req gen.LoadAdapterRequest
	if err := a.ReadJSON(w, r, "LoadAdapterRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.begin(w, r, params.Wait, operations.Spec{Kind: "load_adapter", Group: ofAdapters + " " + req.Source}, func() (operations.Work, error) {
		return a.Adapting.LoadAdapter(req.Source)
	}, "source", req.Source)
}

// UnloadAdapter gives one up.
func (a Dialect) UnloadAdapter(w http.ResponseWriter, r *http.Request, name string, params gen.UnloadAdapterParams) {
	a.begin(w, r, params.Wait, operations.Spec{Kind: "unload_adapter", Group: ofAdapters + " " + name}, func() (operations.Work, error) {
		return a.Adapting.UnloadAdapter(name)
	}, "name", name)
}
