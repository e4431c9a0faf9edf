// Package qwen3moe reads the mixtures of experts of the Qwen3 architecture: the graph of
// the dense models, in which the MLP of some blocks, most often of all, is a mixture of the
// few experts that a router chooses for a row. The family is data; the graph is that of
// model/nn.
package qwen3moe
