package model

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"whorl/content"
)

// Contents names all weights of a checkpoint, as its files store them.
type Contents struct {
	Blocks []content.Hash `json:"blocks"` // root of each
	Head   content.Hash   `json:"head"`   // embeddings, norms outside of blocks, LM head
}

var (
	blockDomain = content.NewDomain("whorl block")
	headDomain  = content.NewDomain("whorl head")
)

// BlockRoot names the stored weights of block i. Holders of the same file, or of files with
// the same tensors under other prefixes or in other shards, agree on it. It reads the whole
// block, once: asked again it remembers.
func (c *Checkpoint) BlockRoot(i int) (content.Hash, error) {
	if err := c.inRange(i); err != nil {
		return content.Hash{}, err
	}
	return c.rootOf(i, &blockDomain, func() ([]byte, error) { return c.blockListing(i) })
}

// HeadRoot names the stored weights outside of blocks, as BlockRoot does.
func (c *Checkpoint) HeadRoot() (content.Hash, error) {
	return c.rootOf(headIndex, &headDomain, c.headListing)
}

// ErrContents marks weights that are not those of the manifest.
var ErrContents = errors.New("these are not the weights that the swarm serves under this name")

// CheckBlock compares block i with the root that a manifest has for it.
func (c *Checkpoint) CheckBlock(i int, want content.Hash) error {
	got, err := c.BlockRoot(i)
	return c.compared(fmt.Sprintf("block %d", i), got, want, err)
}

// CheckHead compares the weights outside of blocks with the root that a manifest has for them.
func (c *Checkpoint) CheckHead(want content.Hash) error {
	got, err := c.HeadRoot()
	return c.compared("the head", got, want, err)
}

// Compare says where contents that were found in the files are not those of a manifest.
func (c *Checkpoint) Compare(got, want Contents) error {
	if len(got.Blocks) != len(want.Blocks) {
		return fmt.Errorf("%w: %s has %d blocks, and the manifest names %d", ErrContents, c.Path, len(got.Blocks), len(want.Blocks))
	}
	for i, root := range got.Blocks {
		if err := c.compared(fmt.Sprintf("block %d", i), root, want.Blocks[i], nil); err != nil {
			return err
		}
	}
	return c.compared("the head", got.Head, want.Head, nil)
}

func (c *Checkpoint) compared(part string, got, want content.Hash, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("%w: %s of %s is %s, and the manifest says %s: the file is another revision or damaged. "+
			"Fetch the one that the swarm serves, or serve yours under another --model-name", ErrContents, part, c.Path, got, want)
	}
	return err
}

// headIndex stands for the head among the remembered roots of blocks.
const headIndex = -1

func (c *Checkpoint) rootOf(i int, d *content.Domain, listing func() ([]byte, error)) (content.Hash, error) {
	c.mu.Lock()
	root, ok := c.roots[i]
	c.mu.Unlock()
	if ok {
		return root, nil
	}
	text, err := listing()
	if err != nil {
		return content.Hash{}, err
	}
	root = d.Of(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roots == nil {
		c.roots = map[int]content.Hash{}
	}
	c.roots[i] = root
	return root, nil
}

// A listing is what a root is the hash of: a line for each tensor with its name in the
// family's own words, the type and shape that the file has it in, its length in bytes and
// the root of its tree. Whoever has the root can ask anybody for the listing, and whoever has
// that for any chunk of any tensor.
func (c *Checkpoint) list(text []byte, source, name string) ([]byte, error) {
	t, err := c.file.Tensor(source)
	if err != nil {
		return nil, fmt.Errorf("contents of %s: %w", c.Name, err)
	}
	s, _ := storageOf(t.Info)
	return fmt.Appendf(text, "%s %s %d %d %s\n", name, s.name, t.Shape, len(t.Data), content.Tree(t.Data)), nil
}

func (c *Checkpoint) blockListing(i int) (text []byte, err error) {
	spec := c.Config.Block(i)
	seen := map[string]bool{} // several needs may lie in one tensor
	for _, need := range spec.Needs() {
		name := c.source(i, need).name
		if seen[name] {
			continue
		}
		seen[name] = true
		if text, err = c.list(text, name, c.canon.source(spec, need).name); err != nil {
			return nil, err
		}
	}
	return text, nil
}

func (c *Checkpoint) headListing() (text []byte, err error) {
	canon := Checkpoint{Config: c.Config, names: c.canon}
	names := canon.headTensors()
	for i, h := range c.headTensors() {
		if text, err = c.list(text, h.src.name, names[i].src.name); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// Contents names everything. It reads the whole checkpoint, on all processors, and tells
// progress, if not nil, how many bytes it has read of how many; calls come from several
// goroutines.
func (c *Checkpoint) Contents(ctx context.Context, progress func(done, total int64)) (Contents, error) {
	out := Contents{Blocks: make([]content.Hash, c.Config.Layers)}
	total, done := c.storedBytes(), atomic.Int64{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	add := func(at *content.Hash, names []string, root func() (content.Hash, error)) {
		g.Go(func() (err error) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if *at, err = root(); err == nil && progress != nil {
				progress(done.Add(c.bytesOf(names)), total)
			}
			for _, name := range names {
				c.file.Release(name) // most of them are of no further use here
			}
			return err
		})
	}
	add(&out.Head, c.headNames(), c.HeadRoot) // first: it may hold the longest tensors
	for i := range out.Blocks {
		add(&out.Blocks[i], c.blockNames(i), func() (content.Hash, error) { return c.BlockRoot(i) })
	}
	return out, g.Wait()
}

// storedBytes is what Contents reads.
func (c *Checkpoint) storedBytes() int64 {
	n := c.bytesOf(c.headNames())
	for i := range c.Config.Layers {
		n += c.bytesOf(c.blockNames(i))
	}
	return n
}

func (c *Checkpoint) bytesOf(names []string) (n int64) {
	for _, name := range names {
		info, _ := c.file.Info(name)
		n += info.Bytes
	}
	return n
}

// blockNames are the file's names of the tensors of block i.
func (c *Checkpoint) blockNames(i int) (names []string) {
	for _, need := range c.Config.Block(i).Needs() {
		if name := c.source(i, need).name; !slices.Contains(names, name) { // several needs may lie in one tensor
			names = append(names, name)
		}
	}
	return names
}

func (c *Checkpoint) headNames() (names []string) {
	for _, h := range c.headTensors() {
		names = append(names, h.src.name)
	}
	return names
}

// Whole tells whether all weights are on this disk, so that Contents fetches nothing.
func (c *Checkpoint) Whole() bool { return c.file.Whole() }
