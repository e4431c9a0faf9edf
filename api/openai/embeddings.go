package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"whorl/api"
	"whorl/api/gen"
)

// maxEmbedded is how many tokens one request may have embedded.
const maxEmbedded = 1 << 18

// CreateEmbedding gives texts as vectors.
func (a Dialect) CreateEmbedding(w http.ResponseWriter, r *http.Request, params gen.CreateEmbeddingParams) {
	var req gen.EmbeddingsRequest
	if err := a.ReadJSON(w, r, "EmbeddingsRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	e, err := a.Engine(r.Context(), api.Value(req.Model, ""))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	prompts := req.Input.IDs
	texts, err := encoded(e, "input", req.Input.Texts)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	prompts = append(prompts, texts...)
	ctx, cancel, err := a.WithDeadline(r, req.Timeout, params.XRequestTimeout)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer cancel()
	vectors, err := a.vectors(ctx, e, "input", prompts)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := gen.Embeddings{Object: gen.EmbeddingsObjectList, Model: e.Model().Name, Data: []gen.Embedding{}, Usage: used(prompts)}
	for i, v := range vectors {
		if api.Value(req.Normalize, true) {
			unit(v)
		}
		d := gen.Embedding{Object: gen.EmbeddingObjectEmbedding, Index: i, Embedding: v}
		if req.EncodingFormat != nil && *req.EncodingFormat == gen.EmbeddingsRequestEncodingFormatBase64 {
			d.Embedding = packed(v)
		}
		out.Data = append(out.Data, d)
	}
	api.Reply(w, out)
}

// encoded are the ids of the texts of a field, each from the beginning of a text on.
func encoded(e api.Engine, field string, texts []string) (all [][]int32, err error) {
	for _, text := range texts {
		ids, err := e.Encode(text, true)
		if err != nil {
			return nil, api.EncodeError(e, field, err)
		}
		all = append(all, ids)
	}
	return all, nil
}

// vectors are those of prompts, a few at a time.
func (a Dialect) vectors(ctx context.Context, e api.Engine, param string, prompts [][]int32) ([][]float32, error) {
	all := 0
	for _, p := range prompts {
		all += len(p)
		if err := api.CheckPrompt(ctx, e, param, p); err != nil {
			return nil, err
		}
	}
	if all > maxEmbedded {
		return nil, api.Unsupported(param, "%d tokens are to be embedded: one request may have %d", all, maxEmbedded)
	}
	out := make([][]float32, len(prompts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.Limits.Choices)
	for i, p := range prompts {
		group.Go(func() (err error) {
			if out[i], err = e.Mean(ctx, p); err == nil {
				api.Spend(ctx, len(p), 0)
			}
			return err
		})
	}
	return out, group.Wait()
}

// used counts prompts.
func used(prompts [][]int32) gen.PromptUsage {
	n := 0
	for _, p := range prompts {
		n += len(p)
	}
	return gen.PromptUsage{PromptTokens: n, TotalTokens: n}
}

// unit makes a vector's length 1; one of length 0 stays.
func unit(v []float32) {
	length := math.Sqrt(dot(v, v))
	if length == 0 {
		return
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// packed is a vector as text: base64 of float32 in little-endian.
func packed(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// Score says how alike texts are.
func (a Dialect) Score(w http.ResponseWriter, r *http.Request, params gen.ScoreParams) {
	var req gen.ScoreRequest
	if err := a.ReadJSON(w, r, "ScoreRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	out, err := a.score(r, &req, params.XRequestTimeout)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, out)
}

func (a Dialect) score(r *http.Request, req *gen.ScoreRequest, timeout *string) (*gen.Scores, error) {
	if n, m := len(req.Text1), len(req.Text2); n != 1 && n != m {
		return nil, api.Invalid("text_1", "text_1 has %d texts and text_2 %d: give one, or as many", n, m)
	}
	e, err := a.Engine(r.Context(), api.Value(req.Model, ""))
	if err != nil {
		return nil, err
	}
	var prompts [][]int32
	for _, part := range []struct {
		field string
		texts gen.Texts
	}{{"text_1", req.Text1}, {"text_2", req.Text2}} {
		texts, err := encoded(e, part.field, part.texts)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, texts...)
	}
	ctx, cancel, err := a.WithDeadline(r, req.Timeout, timeout)
	if err != nil {
		return nil, err
	}
	defer cancel()
	vectors, err := a.vectors(ctx, e, "text_1", prompts)
	if err != nil {
		return nil, err
	}
	for _, v := range vectors {
		unit(v)
	}
	out := &gen.Scores{Id: "score-" + api.RandomHex(12), Object: gen.ScoresObjectList, Created: time.Now().Unix(), Model: e.Model().Name, Usage: used(prompts)}
	first, second := vectors[:len(req.Text1)], vectors[len(req.Text1):]
	for i, v := range second {
		out.Data = append(out.Data, gen.TextScore{Index: i, Object: gen.TextScoreObjectScore, Score: dot(first[min(i, len(first)-1)], v)})
	}
	return out, nil
}
