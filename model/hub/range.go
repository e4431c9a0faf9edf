package hub

import (
	"context"
	"path/filepath"
)

// Remote is the weights of a model at the hub, of which parts are read without keeping them.
type Remote struct {
	h     *Hub
	name  Name
	l     *listing
	Files []File // weights in their order, and what is small
}

// Remote asks the hub what a name means.
func (h *Hub) Remote(ctx context.Context, n Name) (*Remote, error) {
	if h.cfg.Offline {
		return nil, failed(ErrOffline, nil, "HF_HUB_OFFLINE is set: %s is not asked for", n)
	}
	l, err := h.list(ctx, n)
	if err != nil {
		return nil, err
	}
	r := &Remote{h: h, name: n, l: l, Files: l.small()}
	for _, f := range l.Files {
		if filepath.Ext(f.Path) == ".safetensors" && filepath.Dir(f.Path) == "." {
			r.Files = append(r.Files, f)
		}
	}
	return r, nil
}

// GGUF lists the parts of the GGUF file that the name means; nil if it means none.
func (r *Remote) GGUF() []File {
	files, err := r.l.gguf(r.name.File)
	if err != nil {
		return nil
	}
	return files
}

// Chunks reads chunks of a file, those that follow each other in one request, and hands each to
// write. Nothing is checked.
func (r *Remote) Chunks(ctx context.Context, f File, chunks []int, write func(chunk int, data []byte) error) error {
	link := r.h.cfg.Endpoint + "/" + r.name.Repo + "/resolve/" + r.l.Commit + "/" + escape(f.Path)
	for len(chunks) > 0 {
		n := 1
		for n < len(chunks) && n < maxRequest && chunks[n] == chunks[0]+n {
			n++
		}
		next := run{chunks[0], chunks[0] + n}
		chunks = chunks[n:]
		from, to := next.bytes(f.Size)
		var buf []byte
		err := r.h.retried(ctx, func(ctx context.Context) (bool, error) {
			before := len(buf)
			err := r.h.fetchRange(ctx, r.name, link, f, from+int64(len(buf)), to, func(b []byte) error {
				buf = append(buf, b...)
				return nil
			})
			return len(buf) > before, err
		})
		if err != nil {
			return err
		}
		for c := next.from; c < next.to; c++ {
			if err := write(c, buf[(c-next.from)*chunkSize:min((c-next.from+1)*chunkSize, len(buf))]); err != nil {
				return err
			}
		}
	}
	return nil
}
