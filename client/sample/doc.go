// Package sample turns logits into a token. Pure: no clock, no global randomness, no
// tensors. What it does equals the transformers library, in transformers' order; presence
// and frequency penalty, which transformers lacks, follow OpenAI's formula:
//
//	bias                added to the logits of the named ids
//	repetition penalty  ids of the whole session: logits < 0 times it, others divided by it
//	frequency penalty   taken from the logit once for every time that the answer has the id
//	presence penalty    taken once if the answer has the id
//	no-repeat n-grams   ids that would complete a run of n ids the session has: -inf
//	bad words           ids that would complete one: -inf
//	min new tokens      ids that end the answer: -inf until it is long enough
//
// Greedy decoding takes the best of that, and [Beams] searches it. A draw goes on:
//
//	temperature, top-k, top-p, min-p, typical-p, one number from the seeded generator
//
// and so does a search with a temperature, which draws among the ways to go on of all its beams.
package sample
