// Package phi3 reads models of the Phi-3 architecture (Phi-3, Phi-3.5 and Phi-4-mini, and
// Phi-4): fused projections, partial rotation, and factors of frequencies for short and for
// long sessions. The family is data; the graph is that of model/nn.
package phi3
