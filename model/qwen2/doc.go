// Package qwen2 reads models of the Qwen2 architecture (Qwen1.5 to Qwen2.5, dense): Llama's
// graph with biases on queries, keys and values. The family is data; the graph is that of
// model/nn.
package qwen2
