// Package grammar says which tokens may come next in an answer that has to be of a form: a JSON
// value that is valid by a schema, a text that a regular expression describes, or what is put
// together of such parts (Spec).
//
//	Spec -> expr (rules over bytes) -> program -> states, found as they are needed -> masks
//
// A grammar is a set of rules over bytes. Rules call each other, so that a state is a set of
// positions, each above a stack of the places where its callers go on. States, and what follows
// on each byte, are found when they are first needed and then kept, in bounded memory. All works
// on bytes: tokens that cut a character in two are as good as others.
//
// A mask is found by walking the vocabulary as a tree of bytes. What the positions of a rule say
// of the vocabulary does not depend on who called it, as long as a token ends before the rule
// does; so that part is kept for each set of positions and only tokens that leave the rule are
// looked at for each state.
//
// Most places take most tokens, such as any within a text. What a state takes alike is found by
// groups of characters: where each character of some groups leads to the same state, and so on
// from there, tokens made of these are taken together, without being looked at. The ordinary ones,
// of what a JSON text shows as it is, are known beforehand, as one mask for each number of
// characters, and stand apart in the tree from the others.
//
// What is admitted is sound and not complete: every text that a schema's grammar admits is valid
// by the schema, but a valid value may be spelled in one way only. Properties come in the order
// of the schema; white space is at most a space, or a line end and an indentation; numbers have
// at most 18 digits before and 18 behind the point. Where the schema does not speak of
// additionalProperties, an object that declares properties, be they none, has no others. Keywords that cannot
// be kept are refused by name; what is no keyword of JSON Schema is a note, as its standard says.
//
// The package knows nothing of models, sessions or sampling, and imports nothing of ours. A
// schema is foreign: it is bounded in bytes, rules, instructions, and the work for each token.
package grammar
