// Package gemma3 reads text models of the Gemma 3 architecture, also from inside its vision
// models: four norms a block, norms of queries and keys, blocks with windows and a rotary
// base of their own, scaled embeddings. The family is data; the graph is that of model/nn.
package gemma3
