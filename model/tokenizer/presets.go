package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// preset is what a name of a pre-tokenizer in a GGUF file stands for: the
// parts of the tokenizer.json of the models that are converted under it. Where
// llama.cpp only comes near them (the digits of Falcon, the normal form of
// Qwen), the model's own file counts.
type preset struct {
	split      string // pre_tokenizer of a tokenizer.json
	nfc        bool
	wholeWords bool // ignore_merges: a word that is a token stays whole
	bos        bool // texts begin with BOS although files need not say so
}

// Split patterns of presets, beside those that have a scanner.
const (
	defaultPunctuation = `[\p{P}\$\+<=>\^~\|]+`
	bloomPattern       = ` ?[^(\s|.,!?…。，、।۔،)]+`
)

// Steps of a pre_tokenizer.
const (
	bytesStep       = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`
	gpt2Step        = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`
	eachDigitStep   = `{"type":"Digits","individual_digits":true}`
	digitRunsStep   = `{"type":"Digits","individual_digits":false}`
	punctuationStep = `{"type":"Punctuation","behavior":"Contiguous"}`
)

// splitStep isolates the matches of a pattern.
func splitStep(pattern string) string {
	quoted, err := json.Marshal(pattern)
	if err != nil { // no string is without a JSON form
		panic(err)
	}
	return `{"type":"Split","pattern":{"Regex":` + string(quoted) + `},"behavior":"Isolated","invert":false}`
}

func splitSequence(steps ...string) string {
	return `{"type":"Sequence","pretokenizers":[` + strings.Join(steps, ",") + `]}`
}

var presets = func() map[string]preset {
	threeDigits := splitStep(`[0-9][0-9][0-9]`)
	named := map[string]preset{}
	for names, p := range map[string]preset{
		// llama.cpp's own, for files that name none.
		"default": {split: splitSequence(splitStep(defaultPunctuation), splitStep(gpt2Pattern), splitStep(`\p{N}+`), threeDigits, bytesStep)},
		"gpt-2 gpt2 phi-2 mpt olmo jais trillion roberta-bpe": {split: gpt2Step},
		"smollm starcoder refact codeshell exaone minerva-7b": {split: splitSequence(eachDigitStep, gpt2Step)},
		"command-r": {split: splitSequence(eachDigitStep, gpt2Step), nfc: true},
		"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": {
			split: splitSequence(splitStep(llama3Pattern), bytesStep), wholeWords: true, bos: true},
		"smaug-bpe":                    {split: splitSequence(splitStep(llama3Pattern), bytesStep), wholeWords: true},
		"dbrx":                         {split: splitSequence(splitStep(llama3Pattern), bytesStep)},
		"qwen2":                        {split: splitSequence(splitStep(qwen2Pattern), bytesStep), nfc: true},
		"tekken":                       {split: splitSequence(splitStep(tekkenPattern), bytesStep), wholeWords: true, bos: true},
		"falcon":                       {split: splitSequence(punctuationStep, gpt2Step, digitRunsStep, threeDigits)},
		"gpt-4o llama4 kanana2":        {split: splitSequence(splitStep(gpt4oPattern), bytesStep)},
		"bloom poro-chat gpt3-finnish": {split: splitSequence(splitStep(bloomPattern), bytesStep)},
		"deepseek-r1-qwen kormo megrez stablelm2": {split: splitSequence(splitStep(qwen2Pattern), bytesStep)},
	} {
		for _, name := range strings.Fields(names) {
			named[name] = p
		}
	}
	return named
}()

// presetOf finds the preset of a name; no name is "default".
func presetOf(name string) (preset, error) {
	if name == "" {
		name = "default"
	}
	p, ok := presets[name]
	if !ok {
		return preset{}, fmt.Errorf("pre-tokenizer %q is not known", name)
	}
	return p, nil
}
