// Package llama reads models of the Llama architecture (Llama 1 to 3.3, SmolLM2,
// TinyLlama and others that say LlamaForCausalLM). The family is data: config.go maps
// configurations, names.go names tensors; the graph is that of model/nn.
package llama
