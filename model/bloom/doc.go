// Package bloom reads models of the BLOOM architecture: layer norms with biases, ALiBi in
// place of a rotary embedding, an MLP without gate, biases everywhere, embeddings that are
// normalised, and a head that is usually the embedding table. The family is data; the graph
// is that of model/nn.
package bloom
