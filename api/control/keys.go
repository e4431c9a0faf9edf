package control

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/keys"
)

var keyTable = table[gen.Key]{
	key: func(k *gen.Key) string { return k.Name },
	columns: []column[gen.Key]{
		{"NAME", func(k *gen.Key) string { return k.Name }},
		{"ID", func(k *gen.Key) string { return k.Id }},
		{"SCOPES", func(k *gen.Key) string { return strings.Join(keys.Convert[string](k.Scopes), ",") }},
		{"EXPIRES", func(k *gen.Key) string { return moment(k.Expires) }},
		{"USED", func(k *gen.Key) string { return moment(k.Used) }},
		{"REQUESTS", func(k *gen.Key) string { return strconv.FormatInt(k.Usage.Requests, 10) }},
		{"TOKENS", func(k *gen.Key) string {
			return strconv.FormatInt(k.Usage.PromptTokens+k.Usage.CompletionTokens, 10)
		}},
	},
}

// bookColumns are those of a book alone; the others are what this node has seen of a key.
const bookColumns = 5

// WriteKeys writes the table of a book's keys, as nodes write theirs.
func WriteKeys(w io.Writer, all []keys.Key) {
	out := make([]gen.Key, len(all))
	for i, k := range all {
		out[i] = keyOf(k, keys.Usage{})
	}
	tabulate(w, keyTable.columns[:bookColumns], out)
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// ring is where this node's keys are.
func (a Dialect) ring() (*keys.Ring, error) {
	if a.Keys == nil {
		return nil, api.Refused(api.CodeNoKeys, "this node has no keys: start it with --keys FILE, or --keys database")
	}
	return a.Keys, nil
}

// ListKeys tells of the keys and of what they used.
func (a Dialect) ListKeys(w http.ResponseWriter, r *http.Request, p gen.ListKeysParams) {
	ring, err := a.ring()
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	var out []gen.Key
	for _, h := range ring.Holders() {
		out = append(out, keyOf(h.Key(), h.Usage()))
	}
	replyList(a, w, r, keyTable, out, p.Limit, p.Cursor)
}

func keyOf(k keys.Key, u keys.Usage) gen.Key {
	out := gen.Key{Id: k.ID, Name: k.Name, Scopes: keys.Convert[gen.KeyScope](k.Scopes), Created: k.Created, Expires: given(k.Expires), Used: given(k.Used),
		RequestsPerMinute: given(k.Requests), TokensPerMinute: given(k.Tokens), Answers: given(k.Answers)}
	out.Usage.Requests, out.Usage.PromptTokens, out.Usage.CompletionTokens, out.Usage.Running = u.Requests, u.PromptTokens, u.CompletionTokens, u.Running
	return out
}

// given is a pointer to a value that is not nothing.
func given[T comparable](v T) *T {
	var nothing T
	if v == nothing {
		return nil
	}
	return &v
}

// CreateKey makes a key, and shows its secret this once.
func (a Dialect) CreateKey(w http.ResponseWriter, r *http.Request) {
	var req gen.KeyRequest
	if err := a.ReadJSON(w, r, "KeyRequest", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	ring, err := a.ring()
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	scopes := []keys.Scope{keys.Infer}
	if req.Scopes != nil {
		scopes = keys.Convert[keys.Scope](req.Scopes)
	}
	limits := keys.Limits{Requests: api.Value(req.RequestsPerMinute, 0), Tokens: api.Value(req.TokensPerMinute, 0), Answers: api.Value(req.Answers, 0)}
	k, secret, err := keys.New(req.Name, scopes, limits, time.Now(), api.Value(req.Expires, time.Time{}))
	if err != nil {
		a.Fail(w, r, api.Invalid("", "%v", err))
		return
	}
	err = ring.Add(r.Context(), k)
	if errors.Is(err, keys.ErrTaken) {
		err = api.Refused(api.CodeTaken, "%q: %v", k.Name, err)
	}
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("key made", "id", api.RequestID(r), "key", k.ID, "name", k.Name, "scopes", k.Scopes)
	w.Header().Set("Cache-Control", "no-store")
	api.WriteJSON(w, http.StatusCreated, "application/json", gen.NewKey{Id: k.ID, Name: k.Name, Secret: secret})
}

// DeleteKey takes a key out of the book.
func (a Dialect) DeleteKey(w http.ResponseWriter, r *http.Request, which string) {
	ring, err := a.ring()
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	ok, err := ring.Remove(r.Context(), which)
	if err == nil && !ok {
		err = api.Refused(api.CodeNotFound, "there is no key %q: GET /api/v1/keys lists those that are there", api.Clip(which))
	}
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("key removed", "id", api.RequestID(r), "key", api.Clip(which))
	w.WriteHeader(http.StatusNoContent)
}
