package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
)

// Tables are what is trained.
type Tables struct {
	Tokens int // rows of prompts
	Hidden int
	Blocks int // with deep prompts; 0: there are none
	// Shallow is [Tokens][Hidden]: rows in front of every text.
	Shallow []float32
	// Deep is [Blocks][Tokens][Hidden]: added to the first rows in front of each block.
	Deep []float32
	// Score is [labels][Hidden]: a classifier over the last row of a text, behind the final norm.
	Score []float32
}

// parameters lists the tables that there are, in a fixed order, with their names.
func (t *Tables) parameters() (names []string, values [][]float32) {
	for _, p := range []struct {
		name string
		v    []float32
	}{{"shallow", t.Shallow}, {"deep", t.Deep}, {"score", t.Score}} {
		if len(p.v) > 0 {
			names, values = append(names, p.name), append(values, p.v)
		}
	}
	return names, values
}

// Hash names all values to the last bit.
func (t *Tables) Hash() string {
	h := sha256.New()
	names, values := t.parameters()
	for i, v := range values {
		fmt.Fprintf(h, "%s %d\n", names[i], len(v))
		binary.Write(h, binary.LittleEndian, v)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Embedder gives rows of ids: a model's head.
type Embedder interface {
	Embed(dst []float32, ids []int32) error
}

// NewTables makes the tables that training begins with: prompts are the rows of some ids of the
// vocabulary, drawn by the seed, deep prompts are zero, and the classifier's weights are small
// and drawn.
func NewTables(tokens, hidden, blocks, labels, vocab int, seed uint64, e Embedder) (*Tables, error) {
	t := &Tables{Tokens: tokens, Hidden: hidden, Blocks: blocks, Shallow: make([]float32, tokens*hidden), Deep: make([]float32, blocks*tokens*hidden), Score: make([]float32, labels*hidden)}
	rng := rand.New(rand.NewPCG(seed, streamTables))
	ids := make([]int32, tokens)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	if err := e.Embed(t.Shallow, ids); err != nil {
		return nil, err
	}
	bound := 1 / math.Sqrt(float64(hidden))
	for i := range t.Score {
		t.Score[i] = float32((2*rng.Float64() - 1) * bound)
	}
	return t, nil
}

// Streams of numbers that a seed gives, so that none depends on how much another was used.
const (
	streamTables = 1 + iota
	streamOrder
)

// Order is the order of n examples in an epoch.
func Order(n int, seed uint64, epoch int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	rng := rand.New(rand.NewPCG(seed, streamOrder+uint64(epoch)<<8))
	for i := n - 1; i > 0; i-- {
		j := rng.IntN(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}
