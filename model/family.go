package model

import (
	"strings"

	"whorl/model/nn"
)

// The parts of model/nn that callers of this package hold.
type (
	// Block is one transformer layer on a device.
	Block = nn.Block
	// Workspace holds a step's buffers.
	Workspace = nn.Workspace
)

// Family says how to read the models of one architecture.
type Family struct {
	Name string // of Config.Family, such as "llama"
	// Architectures are the names in config.json's list "architectures"; ModelType is
	// asked where a config has no such list.
	Architectures []string
	ModelType     string
	// GGUF is the value of general.architecture; "" if GGUF does not know the family.
	GGUF string

	FromJSON func(*Fields) (Config, error)
	FromGGUF func(*Keys) (Config, error)

	SafetensorsNames, GGUFNames Names
}

// Names says what the tensors of a family are called in one file format.
type Names struct {
	// Prefixes occur in the wild in front of the same names; the first that fits is used.
	Prefixes []Prefix
	// Block is the format of a block's prefix, such as "layers.%d.", and Param what
	// follows; ".weight" or ".bias" comes after it.
	Block string
	Param [nn.NumParams]string
	// Beside is what Param is in parallel blocks with two norms, where it is another name.
	Beside [nn.NumParams]string
	// Fused are parameters that lie in one tensor. Param of these is not used.
	Fused []Fused
	// Expert are formats with an expert's number, of matrices that each expert has of its
	// own; ExpertStack names those that lie in one tensor [experts][rows][cols]. Where there
	// are both, a file has either.
	Expert, ExpertStack [nn.NumParams]string
	// GainPlusOne: norms multiply by one plus what is stored.
	GainPlusOne bool
	// Embed, Norm and Head are the tensors outside of blocks.
	Embed, EmbedNorm, Norm, Head string
	// Ignore are endings of tensors inside blocks that carry no information, such as
	// stored rotary tables.
	Ignore []string
	// Interleaved are the parameters whose rows pair element 2i with 2i+1 of a head
	// in this format, where the graph pairs i with i+Dim/2.
	Interleaved []nn.Param
}

// Prefix is put before the names of blocks, embeddings and final norm (Body), and before
// that of the LM head (Head).
type Prefix struct{ Body, Head string }

// blocks is what the names of all tensors inside blocks begin with.
func (n Names) blocks(p Prefix) string {
	head, _, _ := strings.Cut(n.Block, "%d")
	return p.Body + head
}

func (n Names) interleaved(p nn.Param) bool {
	for _, x := range n.Interleaved {
		if x == p {
			return true
		}
	}
	return false
}

func (n Names) ignored(tensor string) bool {
	for _, end := range n.Ignore {
		if strings.HasSuffix(tensor, end) {
			return true
		}
	}
	return false
}
