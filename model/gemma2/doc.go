// Package gemma2 reads models of the Gemma 2 architecture: four norms a block, soft caps of
// scores and logits, windows in every other block, scaled embeddings. The family is data;
// the graph is that of model/nn.
package gemma2
