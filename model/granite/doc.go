// Package granite reads dense models of the Granite 3 architecture: Llama's graph with
// multipliers of embeddings, scores, residuals and logits. The family is data; the graph is
// that of model/nn.
package granite
