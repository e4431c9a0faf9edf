package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"whorl/content"
)

var domain = content.NewDomain("whorl tokenizer")

// hashed are the files of a folder that make text into ids and back, the tokenizer itself
// first. What ends an answer is the model's configuration, not its tokenizer.
var hashed = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}

// HashFolder names the tokenizer of a model folder, chat template included; the zero hash
// means that there is none.
func HashFolder(dir string) (content.Hash, error) {
	parts := [][]byte{[]byte("folder")}
	for i, name := range hashed {
		raw, err := readLimited(filepath.Join(dir, name), maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist) && i == 0:
			return content.Hash{}, nil
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return content.Hash{}, fmt.Errorf("hashing the tokenizer in %s: %w", dir, err)
		default:
			parts = append(parts, []byte(name), raw)
		}
	}
	return domain.Of(parts...), nil
}

// HashGGUF names the tokenizer of a GGUF file by its metadata, encoded as
// weights.Metadata.Encode does; the zero hash means that there is none.
func HashGGUF(pairs []byte) content.Hash {
	if len(pairs) == 0 {
		return content.Hash{}
	}
	return domain.Of([]byte("gguf"), pairs)
}
