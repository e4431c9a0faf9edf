package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"whorl/api"
	"whorl/api/gen"
	"whorl/internal/operations"
	"whorl/swarm"
)

// The contract is valid, its examples included, and the embedded copy is the file.
func TestDocument(t *testing.T) {
	file, err := os.ReadFile("../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != string(gen.Document) {
		t.Fatal("api/gen/openapi.yaml is not openapi.yaml: run go generate ./api/gen")
	}
	doc, err := openapi3.NewLoader().LoadFromData(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
}

// conforms checks a reply against its operation in the contract.
func conforms(t *testing.T, doc *openapi3.T, method, pattern string, w *httptest.ResponseRecorder) {
	t.Helper()
	op := doc.Paths.Find(pattern).GetOperation(method)
	resp := op.Responses.Status(w.Code)
	if resp == nil {
		resp = op.Responses.Value(fmt.Sprintf("%dXX", w.Code/100))
	}
	if resp == nil {
		t.Errorf("%s %s: the contract has no status %d", method, pattern, w.Code)
		return
	}
	if w.Header().Get("X-Request-Id") == "" {
		t.Errorf("%s %s: no X-Request-Id", method, pattern)
	}
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	if len(resp.Value.Content) == 0 {
		if w.Body.Len() > 0 {
			t.Errorf("%s %s: status %d has a body", method, pattern, w.Code)
		}
		return
	}
	body := resp.Value.Content[media]
	if body == nil {
		t.Errorf("%s %s: status %d has the content type %q, which the contract lacks", method, pattern, w.Code, media)
		return
	}
	if !strings.HasSuffix(media, "json") {
		return
	}
	checkSchema(t, method+" "+pattern, body.Schema.Value, w.Body.Bytes())
}

func checkSchema(t *testing.T, what string, s *openapi3.Schema, b []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Errorf("%s: %v in %.200s", what, err, b)
		return
	}
	if err := s.VisitJSON(v); err != nil {
		t.Errorf("%s: %v\nin %.500s", what, err, b)
	}
	if m, ok := v.(map[string]any); ok && len(s.Properties) > 0 {
		for name := range m {
			if s.Properties[name] == nil {
				t.Errorf("%s: the field %q is not in the contract", what, name)
			}
		}
	}
}

// trial is a request that works and one that is refused, for one operation.
type trial struct {
	path, body   string // that works
	status       int
	badPath      string // "" for path
	badBody      string
	badHeaders   []string
	badStatus    int
	admin, badAd bool // which listener
}

const badHost = "Host: evil.example"

// trials has an entry for every operation of the contract, or TestEveryOperation fails.
var trials = map[string]trial{
	"POST /v1/chat/completions": {path: "/v1/chat/completions", body: `{"messages":[{"role":"user","content":"x"}],"max_tokens":3,"logprobs":true,"top_logprobs":2,"return_token_ids":true}`, status: 200,
		badBody: `{"messages":[]}`, badStatus: 400},
	"POST /v1/completions": {path: "/v1/completions", body: `{"prompt":"x","max_tokens":3,"logprobs":2,"return_token_ids":true}`, status: 200,
		badBody: `{"prompt":"x","temperature":-1}`, badStatus: 400},
	"POST /v1/messages": {path: "/v1/messages", body: `{"max_tokens":3,"messages":[{"role":"user","content":"x"}]}`, status: 200,
		badBody: `{"messages":[{"role":"user","content":"x"}]}`, badStatus: 400},
	"POST /v1/messages/count_tokens": {path: "/v1/messages/count_tokens", body: `{"messages":[{"role":"user","content":"x"}]}`, status: 200,
		badBody: `{"messages":[{"role":"assistant","content":"x"}]}`, badStatus: 400},
	"POST /api/chat": {path: "/api/chat", body: `{"stream":false,"messages":[{"role":"user","content":"x"}],"options":{"num_predict":3}}`, status: 200,
		badBody: `{"messages":[{"role":"robot"}]}`, badStatus: 400},
	"POST /api/generate":                     {path: "/api/generate", body: `{"prompt":"x","stream":false}`, status: 200, badBody: `{"prompt":"x","options":{"num_predict":0}}`, badStatus: 400},
	"GET /api/tags":                          {path: "/api/tags", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"POST /api/show":                         {path: "/api/show", body: `{"model":"org/toy:latest"}`, status: 200, badBody: `{"model":"other"}`, badStatus: 404},
	"GET /api/version":                       {path: "/api/version", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"POST /tokenize":                         {path: "/tokenize", body: `{"prompt":"x","return_token_strs":true}`, status: 200, badBody: `{}`, badStatus: 400},
	"GET /tokenizer_info":                    {path: "/tokenizer_info?model=org%2Ftoy", status: 200, badPath: "/tokenizer_info?model=other", badStatus: 404},
	"POST /detokenize":                       {path: "/detokenize", body: `{"tokens":[97,98]}`, status: 200, badBody: `{"tokens":[256]}`, badStatus: 400},
	"GET /v1/models":                         {path: "/v1/models", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /v1/models/{id}":                    {path: "/v1/models/org%2Ftoy", status: 200, badPath: "/v1/models/other", badStatus: 404},
	"POST /api/v1/generate":                  {path: "/api/v1/generate", body: `{"inputs":"x","max_new_tokens":3}`, status: 200, badBody: `{"inputs":"x"}`, badStatus: 200},
	"GET /api/v2/generate":                   {path: "/api/v2/generate", status: 426, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/hidden":                     {path: "/api/v1/hidden", status: 426, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/state":                      {path: "/api/v1/state", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/swarm":                      {path: "/api/v1/swarm", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/swarm/models":               {path: "/api/v1/swarm/models", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/swarm/models/{id}":          {path: "/api/v1/swarm/models/" + string(fakeManifest.UID()), status: 200, badPath: "/api/v1/swarm/models/other", badStatus: 404},
	"GET /api/v1/swarm/models/{id}/coverage": {path: "/api/v1/swarm/models/org%2Ftoy/coverage", status: 200, badPath: "/api/v1/swarm/models/other/coverage", badStatus: 404},
	"GET /api/v1/swarm/servers":              {path: "/api/v1/swarm/servers?model=org/toy", status: 200, badPath: "/api/v1/swarm/servers?model=other", badStatus: 404},
	"GET /api/v1/node":                       {path: "/api/v1/node", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/blocks":                     {path: "/api/v1/blocks", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/sessions":                   {path: "/api/v1/sessions", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/peers":                      {path: "/api/v1/peers", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/peers/standings":            {path: "/api/v1/peers/standings", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"PUT /api/v1/peers/{peer_id}/ban":        {path: "/api/v1/peers/12D3KooWa/ban", body: `{"seconds":60,"reason":"lies"}`, status: 204, admin: true, badAd: true, badBody: `{"seconds":0}`, badStatus: 400},
	"DELETE /api/v1/peers/{peer_id}/ban":     {path: "/api/v1/peers/12D3KooWa/ban", status: 204, admin: true, badAd: true, badPath: "/api/v1/peers/12D3KooWb/ban", badStatus: 404},
	"GET /api/v1/swarm/servers/{peer_id}":    {path: "/api/v1/swarm/servers/12D3KooWa", status: 200, badPath: "/api/v1/swarm/servers/12D3KooWz", badStatus: 404},
	"GET /api/v1/swarm/models/{id}/history":  {path: "/api/v1/swarm/models/org%2Ftoy/history?from=10m&step=1m", status: 200, badPath: "/api/v1/swarm/models/org%2Ftoy/history?step=1s", badStatus: 400},
	"POST /api/v1/swarm/models/{id}/route":   {path: "/api/v1/swarm/models/org%2Ftoy/route", body: `{"positions":64}`, status: 200, badBody: `{"positions":0}`, badStatus: 400},
	"GET /api/v1/swarm/events":               {path: "/api/v1/swarm/events?model=org/toy&limit=2", status: 200, badPath: "/api/v1/swarm/events?cursor=x", badStatus: 400},
	"GET /api/v1/blocks/{index}":             {path: "/api/v1/blocks/0", status: 200, badPath: "/api/v1/blocks/77", badStatus: 404},
	"GET /api/v1/cache":                      {path: "/api/v1/cache", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/sessions/{id}":              {path: "/api/v1/sessions/aa", status: 200, badPath: "/api/v1/sessions/zz", badStatus: 404},
	"POST /api/v1/peers":                     {path: "/api/v1/peers", body: `{"addr":"/ip4/10.0.0.2/tcp/31337/p2p/12D3KooWa"}`, status: 201, admin: true, badAd: true, badBody: `{"addr":"10.0.0.2"}`, badStatus: 400},
	"DELETE /api/v1/peers/{peer_id}":         {path: "/api/v1/peers/12D3KooWa", status: 204, admin: true, badAd: true, badPath: "/api/v1/peers/12D3KooWb", badStatus: 404},
	"POST /api/v1/peers/{peer_id}/ping":      {path: "/api/v1/peers/12D3KooWa/ping", status: 200, admin: true, badAd: true, badPath: "/api/v1/peers/12D3KooWb/ping", badStatus: 502},
	"GET /api/v1/node/config":                {path: "/api/v1/node/config", status: 200, admin: true, badStatus: 404},
	"PATCH /api/v1/node/config":              {path: "/api/v1/node/config", body: `{"log-level":"debug"}`, status: 200, admin: true, badAd: true, badBody: `{"port":1}`, badStatus: 409},
	"GET /api/v1/events":                     {path: "/api/v1/events?wait=0s", status: 200, badPath: "/api/v1/events?since=x", badStatus: 400},
	"GET /api/v1/logs":                       {path: "/api/v1/logs?wait=0s&level=info", status: 200, admin: true, badAd: true, badPath: "/api/v1/logs?level=loud", badStatus: 400},
	"GET /api/v1/logs/level":                 {path: "/api/v1/logs/level", status: 200, admin: true, badStatus: 404},
	"PUT /api/v1/logs/level":                 {path: "/api/v1/logs/level", body: `{"level":"warn"}`, status: 200, admin: true, badAd: true, badBody: `{"level":"loud"}`, badStatus: 400},
	"DELETE /api/v1/sessions/{id}":           {path: "/api/v1/sessions/aa", status: 204, admin: true, badAd: true, badPath: "/api/v1/sessions/zz", badStatus: 404},
	"POST /api/v1/node/drain":                {path: "/api/v1/node/drain", body: `{"reason":"new disk"}`, status: 202, admin: true, badAd: true, badBody: `{"reason":1}`, badStatus: 400},
	"POST /api/v1/node/restart":              {path: "/api/v1/node/restart?wait=5s", status: 200, admin: true, badAd: true, badPath: "/api/v1/node/restart?wait=x", badStatus: 400},
	"POST /api/v1/node/benchmark":            {path: "/api/v1/node/benchmark?wait=5s", body: `{"seconds":0.5}`, status: 200, admin: true, badAd: true, badBody: `{"seconds":0}`, badStatus: 400},
	"GET /api/v1/adapters":                   {path: "/api/v1/adapters", status: 200, badPath: "/api/v1/adapters?limit=0", badStatus: 400},
	"POST /api/v1/adapters":                  {path: "/api/v1/adapters?wait=5s", body: `{"source":"org/poems@main"}`, status: 200, admin: true, badAd: true, badBody: `{"source":""}`, badStatus: 400},
	"DELETE /api/v1/adapters/{name}":         {path: "/api/v1/adapters/org%2Fprose?wait=5s", status: 200, admin: true, badAd: true, badPath: "/api/v1/adapters/none", badStatus: 404},
	"GET /api/v1/operations":                 {path: "/api/v1/operations", status: 200, admin: true, badAd: true, badPath: "/api/v1/operations?limit=0", badStatus: 400},
	"GET /api/v1/operations/{id}":            {path: "/api/v1/operations/OPERATION?wait=5s", status: 200, admin: true, badAd: true, badPath: "/api/v1/operations/op_x", badStatus: 404},
	"DELETE /api/v1/operations/{id}":         {path: "/api/v1/operations/OPERATION", status: 200, admin: true, badAd: true, badPath: "/api/v1/operations/op_x", badStatus: 404},
	"GET /api/v1/operations/{id}/events":     {path: "/api/v1/operations/OPERATION/events", status: 200, admin: true, badAd: true, badPath: "/api/v1/operations/op_x/events", badStatus: 404},
	"POST /api/v1/node/rebalance":            {path: "/api/v1/node/rebalance", body: `{"dry_run":true}`, status: 200, admin: true, badAd: true, badBody: `{"dry_run":1}`, badStatus: 400},
	"POST /api/v1/node/resume":               {path: "/api/v1/node/resume?wait=5s", status: 200, admin: true, badStatus: 404},
	"POST /api/v1/node/shutdown":             {path: "/api/v1/node/shutdown", status: 202, admin: true, badStatus: 404},
	"GET /api/v1/keys":                       {path: "/api/v1/keys?limit=1", status: 200, admin: true, badAd: true, badPath: "/api/v1/keys?limit=0", badStatus: 400},
	"POST /api/v1/keys":                      {path: "/api/v1/keys", body: `{"name":"bob","scopes":["infer","read"],"answers":2}`, status: 201, admin: true, badAd: true, badBody: `{"name":"alice"}`, badStatus: 409},
	"DELETE /api/v1/keys/{key}":              {path: "/api/v1/keys/carol", status: 204, admin: true, badAd: true, badPath: "/api/v1/keys/nobody", badStatus: 404},
	"POST /api/v1/invitations":               {path: "/api/v1/invitations", status: 201, admin: true, badStatus: 404},
	"GET /livez":                             {path: "/livez", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /readyz":                            {path: "/readyz", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /metrics":                           {path: "/metrics", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /api/v1/is_reachable/{peer_id}":     {path: "/api/v1/is_reachable/12D3KooWa", status: 200, badPath: "/api/v1/is_reachable/10.0.0.1", badStatus: 400},
	"GET /api/prometheus":                    {path: "/api/prometheus", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /version":                           {path: "/version", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"GET /openapi.json":                      {path: "/openapi.json", status: 200, badHeaders: []string{badHost}, badStatus: 403},
	"POST /v1/responses":                     {path: "/v1/responses", body: `{"input":"a","max_output_tokens":2}`, status: 200, badBody: `{"input":"a","temperature":-1}`, badStatus: 400},
	"GET /v1/responses/{id}":                 {path: "/v1/responses/STORED", status: 200, badPath: "/v1/responses/resp_x", badStatus: 404},
	"DELETE /v1/responses/{id}":              {path: "/v1/responses/STORED", status: 200, badPath: "/v1/responses/resp_x", badStatus: 404},
	"GET /v1/responses/{id}/input_items":     {path: "/v1/responses/STORED/input_items", status: 200, badPath: "/v1/responses/resp_x/input_items", badStatus: 404},
	"POST /v1/embeddings":                    {path: "/v1/embeddings", body: `{"input":"a"}`, status: 200, badBody: `{"input":"a","dimensions":2}`, badStatus: 400},
	"POST /api/v1/classify":                  {path: "/api/v1/classify", body: `{"model":"org/toy:kind","input":["a","b"]}`, status: 200, badBody: `{"input":"a"}`, badStatus: 400},
	"POST /v1/score":                         {path: "/v1/score", body: `{"text_1":"a","text_2":"b"}`, status: 200, badBody: `{"text_1":["a","b"],"text_2":"c"}`, badStatus: 400},
	"GET /openapi.yaml":                      {path: "/openapi.yaml", status: 200, badHeaders: []string{badHost}, badStatus: 403},
}

// Every operation of the contract has a handler, an example and an error case, and what
// it answers is what the contract says.
func TestEveryOperation(t *testing.T) {
	b := newBench(t, func(c *api.Config) {
		own := c.Engines
		c.Engines = func() []api.Engine {
			all := own()
			return append(all, api.Labelling(all[0], "kind", 8, []string{"x", "y"}, func(_ context.Context, texts [][]int32) ([][]float64, error) {
				return slices.Repeat([][]float64{{0.25, 0.75}}, len(texts)), nil
			}))
		}
	})
	public, admin := b.api.Public(), b.api.Admin()
	listener := func(admins bool) http.Handler {
		if admins {
			return admin
		}
		return public
	}
	seen := 0
	for path, item := range b.doc.Paths.Map() {
		for method, op := range item.Operations() {
			key := method + " " + path
			c, ok := trials[key]
			if !ok {
				t.Errorf("%s: no trial", key)
				continue
			}
			seen++
			if strings.Contains(c.path, "STORED") {
				r, _ := response(t, b, public, `{"input":"a","max_output_tokens":2}`)
				c.path = strings.Replace(c.path, "STORED", r.Id, 1)
			}
			if strings.Contains(c.path, "OPERATION") {
				o, err := b.cfg.Operations.Begin(operations.Spec{Kind: "load", Group: key}, func() (operations.Work, error) { return nil, nil })
				if err != nil {
					t.Fatal(err)
				}
				c.path = strings.Replace(c.path, "OPERATION", o.ID, 1)
			}
			if len(op.Tags) != 1 || op.Responses.Value("4XX") == nil || op.Responses.Value("5XX") == nil {
				t.Errorf("%s: want one tag, and responses for errors", key)
			}
			for code, r := range op.Responses.Map() {
				for media, body := range r.Value.Content {
					if body.Example == nil && len(body.Examples) == 0 {
						t.Errorf("%s: status %s %s has no example", key, code, media)
					}
				}
			}
			w := do(listener(c.admin), method, c.path, c.body)
			if w.Code != c.status {
				t.Errorf("%s: status %d, want %d: %s", key, w.Code, c.status, w.Body)
			}
			conforms(t, b.doc, method, path, w)
			if c.badPath == "" {
				c.badPath = c.path
			}
			w = do(listener(c.badAd), method, c.badPath, c.badBody, c.badHeaders...)
			if w.Code != c.badStatus {
				t.Errorf("%s: bad request has status %d, want %d: %s", key, w.Code, c.badStatus, w.Body)
			}
			if !strings.Contains(w.Body.String(), `"ok":false`) && w.Code < 400 {
				t.Errorf("%s: the bad request worked", key)
			}
			conforms(t, b.doc, method, path, w)
		}
	}
	if seen != len(trials) {
		t.Errorf("%d trials for %d operations", len(trials), seen)
	}
	if !b.node.stopped || len(b.node.killed) != 1 || b.node.reason != "new disk" {
		t.Errorf("control did not arrive: %+v", b.node)
	}
}

// Each code of the swarm has a status, and an error of each has the form of its route.
func TestErrorForms(t *testing.T) {
	codes := []swarm.Code{swarm.CodeInternal, swarm.CodeBadFrame, swarm.CodeVersion, swarm.CodeStaleEpoch, swarm.CodeGap, swarm.CodeNoSession, swarm.CodeWrongModel,
		swarm.CodeCacheFull, swarm.CodeTooLong, swarm.CodeTooMany, swarm.CodeDraining, swarm.CodeNotLoaded, swarm.CodePeerLost, swarm.CodeTimeout, swarm.CodeBlocksMissing,
		swarm.CodeBadOutput, swarm.CodeBadRequest, swarm.CodeNotServed, swarm.CodeCancelled, swarm.CodeUnauthorised, swarm.CodeUnsupported}
	b := newBench(t, nil)
	h := b.api.Public()
	for _, code := range codes {
		if _, ok := api.Meanings[code]; !ok {
			t.Errorf("%s has no meaning", code)
		}
		b.engine.openErr = &swarm.Error{Code: code, Verdict: swarm.Again, Message: "it broke", Missing: []swarm.Span{{Start: 4, End: 8}}, Err: io.ErrUnexpectedEOF}
		for _, stream := range []string{"false", "true"} {
			w := do(h, "POST", "/v1/completions", `{"prompt":"x","stream":`+stream+`}`)
			conforms(t, b.doc, "POST", "/v1/completions", w)
			if m := api.Meanings[code]; w.Code != m.Status {
				t.Errorf("%s: status %d, want %d", code, w.Code, m.Status)
			}
			if retry := w.Header().Get("Retry-After"); (w.Code == 429 || w.Code == 503) && retry == "" {
				t.Errorf("%s: status %d without Retry-After", code, w.Code)
			}
			if strings.Contains(w.Body.String(), io.ErrUnexpectedEOF.Error()) {
				t.Errorf("%s: the cause leaks: %s", code, w.Body)
			}
		}
		w := do(h, "POST", "/v1/messages", `{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`)
		conforms(t, b.doc, "POST", "/v1/messages", w)
		if w.Code != api.Meanings[code].Status {
			t.Errorf("%s: status %d of a message", code, w.Code)
		}
		w = do(h, "POST", "/api/v1/generate", `{"inputs":"x","max_new_tokens":1}`)
		conforms(t, b.doc, "POST", "/api/v1/generate", w)
		var out gen.SocketFailure
		json.Unmarshal(w.Body.Bytes(), &out)
		if m := api.Meanings[code]; w.Code != 200 || out.Error.Code != string(code) || !strings.Contains(out.Traceback, m.Phrase) || strings.ContainsAny(out.Traceback, "\n\t") {
			t.Errorf("%s: status %d, %+v", code, w.Code, out)
		}
	}
}
