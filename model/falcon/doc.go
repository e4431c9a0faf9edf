// Package falcon reads models of the Falcon architecture, in the form that transformers has
// taken over: 7B (one key/value head, the MLP beside attention), 40B, 180B and 11B (groups
// of heads, one norm or two) and RW (ALiBi, biases, the MLP after attention). The family is
// data; the graph is that of model/nn. It does not read the first uploads of these models
// (RefinedWeb), whose configurations do not say which of them they are.
package falcon
