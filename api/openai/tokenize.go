package openai

import (
	"context"
	"net/http"

	"whorl/api"
	"whorl/api/gen"
	"whorl/client"
)

// Tokenize turns a text or a conversation into ids.
func (a Dialect) Tokenize(w http.ResponseWriter, r *http.Request) {
	var req gen.TokenizeRequest
	err := a.ReadJSON(w, r, "TokenizeRequest", &req)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	e, ids, err := a.tokens(r.Context(), &req)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := gen.Tokenized{Count: len(ids), MaxModelLen: e.Room(r.Context(), client.SessionOptions{}), Tokens: ids}
	if api.Value(req.ReturnTokenStrs, false) {
		names := tokenNames{e, map[string]int32{}}
		for _, id := range ids {
			out.TokenStrs = append(out.TokenStrs, names.of(id))
			clear(names.taken) // only a piece of a character needs another name here
		}
	}
	api.Reply(w, out)
}

func (a Dialect) tokens(ctx context.Context, req *gen.TokenizeRequest) (api.Engine, []int32, error) {
	e, err := a.Engine(ctx, api.Value(req.Model, ""))
	if err != nil {
		return nil, nil, err
	}
	switch {
	case (req.Prompt == nil) == (req.Messages == nil):
		return nil, nil, api.Invalid("prompt", "give either prompt or messages")
	case req.Messages != nil:
		extras := client.ChatExtras{Vars: req.ChatTemplateKwargs}
		if !emptyList(req.Tools) {
			extras.Tools = req.Tools
		}
		ids, err := api.EncodeMessages(e, req.Messages, extras)
		return e, ids, err
	}
	special := api.Value(req.AddSpecialTokens, true)
	if !special {
		// So a client learns the id of a token that /tokenizer_info named.
		if ids, err := e.EncodeMarks(*req.Prompt); err == nil && len(ids) == 1 && e.TokenBytes(ids[0], false) == nil {
			return e, ids, nil
		}
	}
	ids, err := e.Encode(*req.Prompt, special)
	if err != nil {
		return nil, nil, api.EncodeError(e, "prompt", err)
	}
	if ids == nil {
		ids = []int32{}
	}
	return e, ids, nil
}

// Detokenize is the text of ids.
func (a Dialect) Detokenize(w http.ResponseWriter, r *http.Request) {
	var req gen.DetokenizeRequest
	if err := a.ReadJSON(w, r, "DetokenizeRequest", &req); err != nil {
		a.fail(w, r, err)
		return
	}
	e, err := a.Engine(r.Context(), api.Value(req.Model, ""))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if err := api.CheckIDs(e, "tokens", req.Tokens); err != nil {
		a.fail(w, r, err)
		return
	}
	api.Reply(w, gen.Detokenized{Prompt: e.Decode(req.Tokens)})
}

// TokenizerInfo tells of a model's tokenizer.
func (a Dialect) TokenizerInfo(w http.ResponseWriter, r *http.Request, params gen.TokenizerInfoParams) {
	e, err := a.Engine(r.Context(), api.Value(params.Model, ""))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	m, specials := e.Model(), e.Specials()
	text := func(name string) *string {
		if t, ok := specials[name]; ok {
			return &t
		}
		return nil
	}
	out := gen.TokenizerInfo{
		TokenizerClass: gen.TokenizerInfoTokenizerClassBPE, Model: m.Name, ModelMaxLength: m.MaxLength, VocabSize: m.Vocab,
		BosToken: text("bos_token"), EosToken: text("eos_token"), UnkToken: text("unk_token"), PadToken: text("pad_token"),
	}
	if t := e.Template(); t != "" {
		out.ChatTemplate = &t
	}
	api.Reply(w, out)
}
