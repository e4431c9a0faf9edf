// Package smollm3 reads models of the SmolLM3 architecture: Llama's graph, but that some
// blocks do not rotate queries and keys. The family is data; the graph is that of model/nn.
package smollm3
