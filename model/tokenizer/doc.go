// Package tokenizer turns text into token ids and back, for the vocabularies
// that the served models bring along: a Hugging Face tokenizer.json (with its
// side files) or the vocabulary inside a GGUF file.
//
//	text -> added tokens cut out -> normalise -> added tokens again -> pre-tokenise -> BPE -> begin/end ids
//	ids  -> token strings -> decoder chain -> text      (Stream does the same one id at a time)
//
// The reference is the Hugging Face tokenizers library, for tokenizer.json and
// for the same vocabulary in a GGUF file; testdata/PROVENANCE.md says how the
// goldens were made. Byte-level BPE and SentencePiece-type BPE with byte
// fallback are covered: what Llama, Mistral, Mixtral, BLOOM, Falcon, Qwen,
// Gemma, Phi, OLMo, SmolLM, Granite and Command-R use. A kind of component that
// is not known is an error that names it: a tokenizer that is nearly right is
// worse than none. unicode.go has what Go's tables do not know yet.
//
// Chat templates are rendered here too (by package jinja), because only the
// tokenizer can keep a user's text from turning into control tokens: see
// [Tokenizer.EncodeChat].
//
// What this package is not: it trains nothing, downloads nothing, reads no
// GGUF container (the caller fills [GGUFVocab]) and knows no Unigram or
// WordPiece models.
//
// A [Tokenizer] is immutable once built and safe for concurrent use; a
// [Stream] belongs to one goroutine.
package tokenizer
