// Package weights reads checkpoint files: safetensors (one file, or shards named by an
// index) and GGUF (one file, or the parts of a split one). A [File] is a set of named
// tensors, memory-mapped; opening one reads headers only, and a tensor's bytes are touched
// when a caller reads the view that [File.Tensor] hands out.
//
// Files are foreign bytes: every count, length and offset is checked against fixed limits
// and against the size of the file before anything is allocated from it, and what is wrong
// is one line that names the file.
//
// The package knows nothing of model families, of what a tensor is for, or of how blocks of
// quantised numbers are laid out (tensor/quant does). It does not download, and it does
// not dequantise.
package weights
