package sample

// Library is what becomes of a field of transformers' GenerationConfig here.
type Library struct {
	Name string // in GenerationConfig
	Does What
	How  string // the field here, why not, or why it means nothing
}

// What becomes of a field.
type What string

// The three ways.
const (
	Done    What = "done"
	Refused What = "refused" // it would change the answer
	Nothing What = "nothing" // it changes no answer: it is ignored
)

// LibraryFields are all fields of GenerationConfig of version 5.24, in alphabetical order. Those
// that are refused are so by name, over every route that takes the fields of the library.
var LibraryFields = []Library{
	{"assistant_confidence_threshold", Nothing, "drafts change the speed alone"},
	{"assistant_early_exit", Nothing, "drafts change the speed alone"},
	{"assistant_ensemble_weight", Refused, "an ensemble of two models is another model"},
	{"assistant_lookbehind", Nothing, "drafts change the speed alone"},
	{"bad_words_ids", Done, "`bad_words`, as texts"},
	{"begin_suppress_tokens", Done, ""},
	{"bos_token_id", Nothing, "the tokenizer of the model has it"},
	{"cache_config", Nothing, "servers keep their caches"},
	{"cache_implementation", Nothing, "servers keep their caches"},
	{"compile_config", Nothing, "nothing is compiled"},
	{"constraints", Refused, "use structured output"},
	{"continuous_batching_config", Nothing, "servers batch by themselves"},
	{"decoder_start_token_id", Nothing, "of models with an encoder"},
	{"disable_compile", Nothing, "nothing is compiled"},
	{"diversity_penalty", Done, "more than 0 with `num_beam_groups`"},
	{"do_sample", Done, "a temperature above 0 draws; the routes of Petals have the field"},
	{"dola_layers", Refused, "the last server gives the last layer alone"},
	{"early_stopping", Done, ""},
	{"encoder_no_repeat_ngram_size", Refused, "of models with an encoder"},
	{"encoder_repetition_penalty", Refused, "of models with an encoder"},
	{"eos_token_id", Refused, "the model says what ends an answer; `stop` adds texts, `ignore_eos` goes on"},
	{"epsilon_cutoff", Done, ""},
	{"eta_cutoff", Done, ""},
	{"exponential_decay_length_penalty", Done, ""},
	{"force_words_ids", Refused, "use structured output"},
	{"forced_bos_token_id", Refused, "put it at the front of the prompt"},
	{"forced_eos_token_id", Done, ""},
	{"guidance_scale", Done, "with `negative_prompt` as text, or `negative_prompt_ids`; not with beams"},
	{"is_assistant", Nothing, "drafts change the speed alone"},
	{"length_penalty", Done, ""},
	{"low_memory", Nothing, "servers keep their caches"},
	{"max_cache_len", Nothing, "servers keep their caches"},
	{"max_length", Done, "with the meaning that it has for Petals: the length of the session"},
	{"max_matching_ngram_size", Nothing, "drafts change the speed alone"},
	{"max_new_tokens", Done, "`max_tokens` on the OpenAI surface"},
	{"max_time", Done, "seconds, more than 0, from the begin of the turn; `finish_reason` is `length`; not with beams. `timeout` ends the request with an error"},
	{"min_length", Refused, "use `min_new_tokens`"},
	{"min_new_tokens", Done, ""},
	{"min_p", Done, ""},
	{"no_repeat_ngram_size", Done, ""},
	{"num_assistant_tokens", Nothing, "drafts change the speed alone"},
	{"num_assistant_tokens_schedule", Nothing, "drafts change the speed alone"},
	{"num_beam_groups", Done, "as release 4.49 of the library has them, the last; not with a temperature above 0"},
	{"num_beams", Done, "1 to 32; with a temperature above 0 (`do_sample`) beams are drawn"},
	{"num_return_sequences", Done, "`n` on the OpenAI surface"},
	{"output_attentions", Refused, "attention stays on the servers"},
	{"output_hidden_states", Refused, "hidden states stay in the swarm"},
	{"output_logits", Refused, "use `logprobs`"},
	{"output_scores", Refused, "use `logprobs`"},
	{"pad_token_id", Nothing, "nothing is padded"},
	{"penalty_alpha", Refused, "contrastive search needs hidden states of each candidate"},
	{"prefill_chunk_size", Nothing, "prompts are cut as servers take them; the result is the same"},
	{"prompt_lookup_num_tokens", Nothing, "drafts change the speed alone"},
	{"remove_invalid_values", Refused, "logits that are no numbers end the answer with an error"},
	{"renormalize_logits", Refused, "scores of beams are of the log-probabilities as processed, as the library has them by default"},
	{"repetition_penalty", Done, ""},
	{"return_dict_in_generate", Nothing, "the form of the answer is the route's"},
	{"sequence_bias", Done, "`logit_bias` for single ids too"},
	{"speculation_type", Nothing, "drafts change the speed alone"},
	{"stop_strings", Done, "`stop`"},
	{"suppress_tokens", Done, ""},
	{"target_lookbehind", Nothing, "drafts change the speed alone"},
	{"temperature", Done, ""},
	{"token_healing", Refused, "the prompt stays as it is"},
	{"top_h", Done, ""},
	{"top_k", Done, ""},
	{"top_p", Done, ""},
	{"transformers_version", Nothing, "a note"},
	{"typical_p", Done, ""},
	{"use_cache", Nothing, "servers keep their caches"},
	{"use_mtp", Nothing, "drafts change the speed alone"},
	{"watermarking_config", Refused, "no watermark is put into texts"},
}

// Neutral tells whether a number asks for nothing in a field that is refused.
func Neutral(name string, v float64) bool {
	switch name {
	case "encoder_repetition_penalty", "assistant_ensemble_weight":
		return v == 1 || v == 0
	case "eos_token_id", "forced_bos_token_id":
		return false
	}
	return v == 0
}
