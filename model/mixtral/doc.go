// Package mixtral reads models of the Mixtral architecture: Mistral's graph, in which each
// row's MLP is a mixture of the few experts that a router chooses for it. The family is
// data; the graph is that of model/nn. GGUF knows these models as llama with experts.
package mixtral
