// Package cohere reads models of the Command-R architecture: attention and MLP side by side
// behind one layer norm without a bias, rotated pairs that lie side by side, scaled logits.
// The family is data; the graph is that of model/nn.
package cohere
