package openai

import (
	"fmt"
	"net/http"

	"whorl/api"
	"whorl/api/gen"
)

// Classify tells labels of texts.
func (a Dialect) Classify(w http.ResponseWriter, r *http.Request, params gen.ClassifyParams) {
	var req gen.ClassifyRequest
	if err := a.ReadJSON(w, r, "ClassifyRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	out, err := a.classify(r, &req, params.XRequestTimeout)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, out)
}

func (a Dialect) classify(r *http.Request, req *gen.ClassifyRequest, timeout *string) (*gen.Classified, error) {
	e, err := a.Engine(r.Context(), api.Value(req.Model, ""))
	if err != nil {
		return nil, err
	}
	c, ok := e.(api.Classifier)
	if !ok {
		return nil, api.Invalid("model", "the model %q goes on with texts and tells no labels: name one with a classifier (--prompt-tuning of the gateway)", e.Model().Name)
	}
	texts, err := encoded(e, "input", req.Input)
	if err != nil {
		return nil, err
	}
	for _, ids := range texts {
		if most := e.Model().MaxLength; len(ids) < 1 || len(ids) > most {
			return nil, api.Invalid("input", "a text of %d tokens: want 1 to %d", len(ids), most)
		}
	}
	usage := used(texts)
	if all := usage.PromptTokens; all > maxEmbedded {
		return nil, api.Unsupported("input", "%d tokens are to be classified: one request may have %d", all, maxEmbedded)
	}
	ctx, cancel, err := a.WithDeadline(r, req.Timeout, timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	shares, err := c.Classify(ctx, texts)
	if err != nil {
		return nil, err
	}
	api.Spend(ctx, usage.PromptTokens, 0)
	out := &gen.Classified{Object: gen.ClassifiedObjectList, Model: e.Model().Name, Usage: usage}
	labels := c.Labels()
	for i, p := range shares {
		if len(p) != len(labels) {
			return nil, fmt.Errorf("%d probabilities for %d labels", len(p), len(labels))
		}
		l := gen.TextLabel{Index: i, Probabilities: map[string]float64{}}
		best := 0
		for j, v := range p {
			l.Probabilities[labels[j]] = v
			if v > p[best] {
				best = j
			}
		}
		l.Label = labels[best]
		out.Data = append(out.Data, l)
	}
	return out, nil
}
