package tokenizer

import (
	"encoding/json"
	"fmt"
)

// parsePostProcessor reads which ids the "post_processor" of a tokenizer.json
// puts before and after a single text.
func parsePostProcessor(raw json.RawMessage, depth int) (prefix, suffix []int32, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	if depth > maxNesting {
		return nil, nil, fmt.Errorf("post_processor: nested more than %d deep", maxNesting)
	}
	var c struct {
		component
		Processors []json.RawMessage
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, nil, fmt.Errorf("post_processor: %w", err)
	}
	switch c.Type {
	case "ByteLevel": // it moves offsets, which are not kept here
		return nil, nil, nil
	case "Sequence":
		for _, sub := range c.Processors {
			p, s, err := parsePostProcessor(sub, depth+1)
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(p, prefix...), append(suffix, s...)
		}
		return prefix, suffix, nil
	case "TemplateProcessing":
		return parseTemplateProcessing(raw)
	}
	return nil, nil, fmt.Errorf("post_processor %q is not supported (Sequence, ByteLevel, TemplateProcessing are)", c.Type)
}

func parseTemplateProcessing(raw json.RawMessage) (prefix, suffix []int32, err error) {
	var p struct {
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		}
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, nil, fmt.Errorf("post_processor TemplateProcessing: %w", err)
	}
	texts := 0
	for _, item := range p.Single {
		switch {
		case item.Sequence != nil:
			texts++
		case item.SpecialToken != nil:
			special, ok := p.SpecialTokens[item.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("post_processor: the template uses %q, which it does not define", item.SpecialToken.ID)
			}
			if texts == 0 {
				prefix = append(prefix, special.IDs...)
			} else {
				suffix = append(suffix, special.IDs...)
			}
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("post_processor: the template of a single text has %d texts", texts)
	}
	return prefix, suffix, nil
}
