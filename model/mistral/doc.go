// Package mistral reads models that say MistralForCausalLM. Without a window of attention
// their graph is Llama's, and that is the family of their Config, as it is of the same
// models in GGUF. Windows shorter than the context are refused.
package mistral
