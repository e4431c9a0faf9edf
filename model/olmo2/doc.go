// Package olmo2 reads models of the OLMo 2 architecture: norms of what attention and MLP put
// out, none of what they read, and norms over all queries and all keys. The family is data;
// the graph is that of model/nn.
package olmo2
