package share

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"whorl/content"
	"whorl/swarm/wire"
)

// HashObject reads size bytes, on all processors, and names them and their pieces.
func HashObject(ctx context.Context, r io.ReaderAt, size int64) (Object, []content.Hash, error) {
	o := Object{Size: size}
	if size < 0 || size > wire.MaxPieces*wire.PieceSize {
		return o, nil, fmt.Errorf("%d bytes are too many for one object: at most %d", size, int64(wire.MaxPieces*wire.PieceSize))
	}
	hashes := make([]content.Hash, o.Pieces())
	g, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), max(1, len(hashes)))
	for w := range workers {
		g.Go(func() error {
			buf := make([]byte, wire.PieceSize)
			for i := w; i < len(hashes); i += workers {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				from, to := o.span(i)
				if n, err := r.ReadAt(buf[:to-from], from); n < int(to-from) {
					return fmt.Errorf("byte %d of %d: %w", from+int64(n), size, err)
				}
				hashes[i] = content.Tree(buf[:to-from])
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return o, nil, err
	}
	o.Root = content.TreeOf(hashes, wire.PieceLevel)
	return o, hashes, nil
}
