package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
)

// maxSideFile bounds the small files beside a tokenizer.json. A config of a
// model with thousands of reserved tokens has under 1 MB.
const maxSideFile = 32 << 20

// OpenFolder reads the tokenizer of a model folder: tokenizer.json, and where
// they exist tokenizer_config.json, special_tokens_map.json,
// generation_config.json, config.json and chat_template.jinja.
func OpenFolder(dir string, opts ...Option) (*Tokenizer, error) {
	t, err := openFolder(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("opening the tokenizer in %s: %w", dir, err)
	}
	return t, nil
}

func openFolder(dir string, opts []Option) (*Tokenizer, error) {
	data, err := readLimited(filepath.Join(dir, "tokenizer.json"), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no tokenizer.json (a model without one can be used with token ids only): %w", err)
	}
	if err != nil {
		return nil, err
	}
	t, err := loadJSON(data, opts)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	if err := t.configure(config); err != nil {
		return nil, err
	}
	if t.templateSource == "" {
		if t.templateSource, t.toolSource, err = folderTemplate(dir, config); err != nil {
			return nil, err
		}
	}
	if err := t.generationEnds(dir); err != nil {
		return nil, err
	}
	return t, t.finish()
}

// tokenString is "<s>" or {"content": "<s>", ...}.
type tokenString string

func (s *tokenString) UnmarshalJSON(data []byte) error {
	var plain *string
	if json.Unmarshal(data, &plain) == nil {
		if plain != nil {
			*s = tokenString(*plain)
		}
		return nil
	}
	var full struct{ Content string }
	err := json.Unmarshal(data, &full)
	*s = tokenString(full.Content)
	return err
}

// sideConfig is what tokenizer_config.json and special_tokens_map.json say.
type sideConfig struct {
	BOS          *tokenString         `json:"bos_token"`
	EOS          *tokenString         `json:"eos_token"`
	UNK          *tokenString         `json:"unk_token"`
	PAD          *tokenString         `json:"pad_token"`
	SEP          *tokenString         `json:"sep_token"`
	CLS          *tokenString         `json:"cls_token"`
	MASK         *tokenString         `json:"mask_token"`
	Additional   json.RawMessage      `json:"additional_special_tokens"`
	Extra        json.RawMessage      `json:"extra_special_tokens"`
	AddBOS       json.RawMessage      `json:"add_bos_token"`
	AddEOS       json.RawMessage      `json:"add_eos_token"`
	Added        map[string]jsonAdded `json:"added_tokens_decoder"`
	ChatTemplate json.RawMessage      `json:"chat_template"`
}

func readConfig(dir string) (sideConfig, error) {
	var c sideConfig
	// The map first: tokenizer_config.json, the newer file, has the last word.
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		if _, err := readSide(dir, name, &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// configure applies the side files as the reference does.
func (t *Tokenizer) configure(c sideConfig) error {
	if err := t.addDecoderTokens(c.Added); err != nil {
		return err
	}
	named := []struct {
		token *tokenString
		id    *int32
	}{{c.BOS, &t.bos}, {c.EOS, &t.eos}, {c.UNK, &t.unk}, {c.PAD, &t.pad}, {c.SEP, nil}, {c.CLS, nil}, {c.MASK, nil}}
	for _, n := range named {
		if n.token == nil || *n.token == "" {
			continue
		}
		id, err := t.declareSpecial(string(*n.token))
		if err != nil {
			return err
		}
		if n.id != nil {
			*n.id = id
		}
	}
	for _, raw := range []json.RawMessage{c.Additional, c.Extra} {
		var list []tokenString
		if json.Unmarshal(raw, &list) != nil {
			continue // extra_special_tokens may be a map of names, which adds none
		}
		for _, token := range list {
			if _, err := t.declareSpecial(string(token)); err != nil {
				return err
			}
		}
	}
	if t.eos >= 0 {
		t.eogs = append(t.eogs, t.eos)
	}
	// Either flag, even a false one, replaces the post-processor of the file.
	if len(c.AddBOS) > 0 || len(c.AddEOS) > 0 {
		t.prefix, t.suffix = nil, nil
		if string(c.AddBOS) == "true" && t.bos >= 0 {
			t.prefix = []int32{t.bos}
		}
		if string(c.AddEOS) == "true" && t.eos >= 0 {
			t.suffix = []int32{t.eos}
		}
	}
	return nil
}

// addDecoderTokens adds the tokens that only tokenizer_config.json lists.
func (t *Tokenizer) addDecoderTokens(listed map[string]jsonAdded) error {
	if len(listed) > maxAdded {
		return fmt.Errorf("tokenizer_config.json: %d added tokens, the limit is %d", len(listed), maxAdded)
	}
	tokens := make([]jsonAdded, 0, len(listed))
	for key, a := range listed {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return fmt.Errorf("tokenizer_config.json: added token %q: the id is not a number", key)
		}
		a.ID = int32(id)
		tokens = append(tokens, a)
	}
	sort.Slice(tokens, func(i, j int) bool { return tokens[i].ID < tokens[j].ID })
	for _, a := range tokens {
		if err := t.add(a.token()); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	return nil
}

// declareSpecial makes a token special; one that is not there gets the next id.
func (t *Tokenizer) declareSpecial(content string) (int32, error) {
	if content == "" {
		return -1, nil
	}
	if id, ok := t.byContent[content]; ok {
		for i := range t.added {
			if t.added[i].content == content {
				t.added[i].special = true
			}
		}
		return id, nil
	}
	id, ok := t.model.vocab[content]
	if !ok {
		id = t.nextID()
	}
	return id, t.add(addedToken{id: id, content: content, special: true})
}

func (t *Tokenizer) nextID() int32 {
	next := int32(0)
	for _, id := range t.model.vocab {
		next = max(next, id+1)
	}
	for _, a := range t.added {
		next = max(next, a.id+1)
	}
	return next
}

// folderTemplate is the chat template: its own file, or the default one of
// tokenizer_config.json, beside which there may be one for tools.
func folderTemplate(dir string, c sideConfig) (source, tools string, err error) {
	data, err := readLimited(filepath.Join(dir, "chat_template.jinja"), maxSideFile)
	if err == nil {
		return string(data), "", nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if isNull(c.ChatTemplate) {
		return "", "", nil
	}
	if json.Unmarshal(c.ChatTemplate, &source) == nil {
		return source, "", nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(c.ChatTemplate, &several); err != nil {
		return "", "", fmt.Errorf("tokenizer_config.json: chat_template is neither text nor a list: %w", err)
	}
	for _, s := range several {
		switch s.Name {
		case "default":
			source = s.Template
		case "tool_use":
			tools = s.Template
		}
	}
	return source, tools, nil
}

// generationEnds adds the end tokens of generation_config.json, or of
// config.json where that file is missing.
func (t *Tokenizer) generationEnds(dir string) error {
	var g struct {
		BOS json.RawMessage `json:"bos_token_id"`
		EOS json.RawMessage `json:"eos_token_id"`
	}
	found, err := readSide(dir, "generation_config.json", &g)
	if err != nil {
		return err
	}
	if !found {
		if _, err := readSide(dir, "config.json", &g); err != nil {
			return err
		}
	}
	ends, err := idList(g.EOS)
	if err != nil {
		return fmt.Errorf("eos_token_id: %w", err)
	}
	t.eogs = append(t.eogs, ends...)
	if t.eos < 0 && len(ends) > 0 {
		t.eos = ends[0]
	}
	begins, err := idList(g.BOS)
	if err != nil {
		return fmt.Errorf("bos_token_id: %w", err)
	}
	if t.bos < 0 && len(begins) > 0 {
		t.bos = begins[0]
	}
	return nil
}

// idList reads an id, a list of ids, or null.
func idList(raw json.RawMessage) ([]int32, error) {
	if isNull(raw) {
		return nil, nil
	}
	var one int32
	if json.Unmarshal(raw, &one) == nil {
		return []int32{one}, nil
	}
	var many []int32
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, fmt.Errorf("neither an id nor a list of ids: %w", err)
	}
	return many, nil
}

// readSide unmarshals a side file, if it exists.
func readSide(dir, name string, into any) (found bool, err error) {
	data, err := readLimited(filepath.Join(dir, name), maxSideFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}
