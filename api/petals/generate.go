package petals

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
	"whorl/client/sample"
	"whorl/swarm"
)

// Limits of legacy fields.
const (
	maxPositions = 1 << 20
	maxStops     = 16
	maxStopBytes = 1024
	maxModelName = 300
	maxSeconds   = 86400
	minPenalty   = 0.01
	maxWords     = 64
	maxWordBytes = 256
	badLimits    = "You should set `max_length` or `max_new_tokens` (but not both)" // clients know this sentence
)

// legacyTurn is a turn as the chat protocol of Petals asks for it.
type legacyTurn struct {
	inputs    string
	messages  []gen.ChatMessage
	newTokens int    // max_new_tokens; 0 if absent
	length    int    // max_length; 0 if absent
	stop      string // stop_sequence
	stream    bool
	ids       bool // return_token_ids
	timeout   float64
	req       client.Request // but for prompt, MaxNewTokens and BadWords
	badWords  []string
	guidance  sample.GuidanceParams
	warnings  []string
}

// parseTurn reads what the WebSocket and the one-shot route have in common.
func parseTurn(f *fields) (legacyTurn, error) {
	var t legacyTurn
	t.inputs = f.text("inputs", 0)
	t.newTokens, _ = f.integer("max_new_tokens", 1, maxPositions, 0)
	t.length, _ = f.integer("max_length", 1, maxPositions, 0)
	t.stop = f.text("stop_sequence", maxStopBytes)
	t.req.Stop = f.texts("extra_stop_sequences", maxStops, maxStopBytes)
	if t.stop != "" {
		t.req.Stop = append([]string{t.stop}, t.req.Stop...)
	}
	t.ids, _ = f.flag("return_token_ids", false)
	t.timeout, _ = f.number("timeout", 0, maxSeconds, 0)
	// Without stop texts the protocol promises a number of tokens, end token or not; with
	// them the end of the model's answer ends it as well.
	t.req.IgnoreEOS, _ = f.flag("ignore_eos", len(t.req.Stop) == 0)
	t.req.IncludeStop, t.req.TopLogprobs = true, -1
	t.sampling(f)
	if f.err == nil && t.newTokens > 0 && t.length > 0 {
		f.err = api.Invalid("max_new_tokens", badLimits)
	}
	return t, f.err
}

// sampling reads how the answer is drawn. Only with do_sample is it drawn at all.
func (t *legacyTurn) sampling(f *fields) {
	sampled, _ := f.flag("do_sample", false)
	asked, seed := sample.DefaultAsked(), f.seed("seed")
	f.into(&asked.Params)
	f.into(&asked.BeamParams)
	f.into(&asked.GuidanceParams)
	if f.get("temperature") != nil && !sampled && asked.Temperature != 0 {
		t.warnings = append(t.warnings, "temperature has no effect without do_sample")
	}
	f.refuse()
	t.badWords = f.texts("bad_words", maxWords, maxWordBytes)
	if f.err != nil {
		return
	}
	p, beams, err := asked.Settle()
	if err == nil {
		err = p.Validate() // also of what has no effect
	}
	if err != nil {
		f.err = api.FieldError(err, nil)
		return
	}
	if !sampled {
		p.Temperature, p.TopK, p.TopP, p.MinP, p.TypicalP, p.TopH, p.Epsilon, p.Eta = 0, 0, 0, 0, 0, 0, 0, 0
	}
	p.Seed = api.SeedOr(seed)
	t.req.Sampling, t.req.Beams, t.guidance = p, beams, asked.GuidanceParams
}

// budget is the number of new tokens of a turn that begins at a position with a prompt.
// limit is the session's length.
func (t *legacyTurn) budget(position, prompt, limit int) (int, error) {
	asked := t.newTokens
	if t.length > 0 {
		if asked = t.length - position - prompt; asked < 1 {
			return 0, &budgetError{position, prompt, 1, t.length}
		}
	}
	if position+prompt+max(1, asked) > limit {
		return 0, &budgetError{position, prompt, max(1, asked), limit}
	}
	return asked, nil
}

// endedBy says why a turn ended, as the protocol tells it: an end token that the caller
// lists as a stop text is that stop text, and part of the text.
func endedBy(e api.Engine, stops []string, res client.Result) (reason gen.StopReason, match, text string) {
	reason = gen.StopReason(res.Finish)
	if res.Finish == client.FinishEOS && len(res.IDs) > 0 {
		if s := e.TokenText(res.IDs[len(res.IDs)-1]); s != "" && slices.Contains(stops, s) {
			return gen.StopReasonStop, s, s
		}
	}
	return reason, res.StopMatch, ""
}

func routeOf(hops []swarm.Hop) []gen.RouteHop {
	var out []gen.RouteHop
	for _, h := range hops {
		out = append(out, gen.RouteHop{Peer: string(h.Peer), Blocks: h.Span.String()})
	}
	return out
}

// verifiedBy is how many chains agreed about a turn; nil if nothing was compared.
func verifiedBy(res client.Result) *int {
	if res.Verified == 0 {
		return nil
	}
	return &res.Verified
}

// Generate continues a text once. What is wrong with the request is told with status 200,
// as clients of the Petals gateway expect.
func (a Dialect) Generate(w http.ResponseWriter, r *http.Request, params gen.GenerateParams) {
	given, err := a.generateFields(w, r)
	if err == nil {
		var out gen.GenerateResult
		if out, err = a.generateOnce(w, r, given, &params); err == nil {
			for _, text := range out.Warnings {
				w.Header().Add("X-Warning", text)
			}
			api.Reply(w, out)
			return
		}
	}
	if code := swarm.CodeOf(err); code == api.CodeBodySize || code == api.CodeMediaType {
		a.Fail(w, r, err)
		return
	}
	api.Abandon(r, err)
	f := a.Describe(r, err)
	api.Unverified(w)
	f.Headers(w.Header())
	api.Reply(w, failureOf(f, err))
}

// generateFields reads query, form and JSON; the body wins.
func (a Dialect) generateFields(w http.ResponseWriter, r *http.Request) (*fields, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, api.Invalid("", "the query cannot be read: %v", err)
	}
	query := fieldsOfForm(values)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == "multipart/form-data" {
		ended, err := a.OpenBody(w, r)
		if err != nil {
			return nil, err
		}
		if err := ended(r.ParseMultipartForm(a.Limits.BodyBytes)); err != nil {
			return nil, err
		}
		defer r.MultipartForm.RemoveAll()
		form := fieldsOfForm(r.MultipartForm.Value)
		form.add(query)
		return form, nil
	}
	b, err := a.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	f, err := fieldsOfBody(media, b)
	if err != nil {
		return nil, err
	}
	f.add(query)
	return f, nil
}

// fieldsOfBody reads JSON or a form. JSON that is sent as a form, as curl does when not
// told otherwise, is taken for what it is.
func fieldsOfBody(media string, b []byte) (*fields, error) {
	trimmed := bytes.TrimSpace(b)
	switch {
	case len(trimmed) > 0 && (media == "application/json" || trimmed[0] == '{' && json.Valid(trimmed)):
		return fieldsOfJSON(trimmed)
	case media == "" || media == "application/json" || media == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(b))
		if err != nil {
			return nil, api.Invalid("", "the form cannot be read: %v", err)
		}
		return fieldsOfForm(form), nil
	}
	return nil, api.Refused(api.CodeMediaType, "the content type is %q: send a form or JSON", api.Clip(media))
}

// generateOnce runs the one turn of a one-shot request.
func (a Dialect) generateOnce(w http.ResponseWriter, r *http.Request, f *fields, params *gen.GenerateParams) (gen.GenerateResult, error) {
	var none gen.GenerateResult
	model := f.text("model", maxModelName)
	var verify *int
	if n, given := f.integer("whorl_verify", 1, client.MaxVerify, 1); given {
		verify = &n
	}
	t, err := parseTurn(f)
	if err != nil {
		return none, err
	}
	if t.newTokens == 0 && t.length == 0 {
		return none, api.Invalid("max_new_tokens", badLimits)
	}
	e, err := a.Engine(r.Context(), model)
	if err != nil {
		return none, err
	}
	if t.req.Guidance, err = api.Guide(e, t.guidance); err != nil {
		return none, err
	}
	prompt, err := e.Encode(t.inputs, true)
	if err != nil {
		return none, api.EncodeError(e, "inputs", err)
	}
	tokens, err := t.budget(0, len(prompt), e.Model().MaxLength)
	if err != nil {
		return none, err
	}
	chains, err := a.Verifying(w, verify, params.XWhorlVerify)
	if err != nil {
		return none, err
	}
	ctx, cancel, err := a.WithDeadline(r, &t.timeout, params.XRequestTimeout)
	if err != nil {
		return none, err
	}
	defer cancel()
	turns, err := a.Turns(ctx, api.Ask{Engine: e, Request: t.req, BadWords: t.badWords, Prompts: [][]int32{prompt}, Param: "inputs", Answers: 1, Tokens: &tokens, Verify: chains})
	if err != nil {
		return none, api.FieldError(err, nil)
	}
	results, err := a.Answers(ctx, turns)
	if err != nil {
		return none, err
	}
	res := results[0]
	reason, match, tail := endedBy(e, t.req.Stop, res)
	text := res.Text + tail
	out := gen.GenerateResult{
		Ok: true, Outputs: &text, StopReason: &reason, Route: routeOf(res.Route), Verified: verifiedBy(res),
		Usage:    &gen.SocketUsage{PromptTokens: res.PromptTokens, CompletionTokens: len(res.IDs)},
		Warnings: append(t.warnings, api.Warnings(f.unknown())...),
	}
	if match != "" {
		out.StopMatch = &match
	}
	if t.ids {
		out.TokenIds = res.IDs
	}
	return out, nil
}
