// Package qwen3 reads dense models of the Qwen3 architecture: Llama's graph with norms over
// each head of queries and keys, and heads whose size is not hidden size / heads. The family
// is data; the graph is that of model/nn. Mixtures of experts are another architecture.
package qwen3
