package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"

	"whorl/internal/sharedfile"
)

// fill sees that byte ranges of a file are on the disk: bring fetches the runs that are not.
func (h *Hub) fill(ctx context.Context, p *part, ranges [][2]int64, bring func(context.Context, []run) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isBlob() {
		return nil
	}
	if p.data != nil && len(p.missing(ranges)) == 0 && !p.complete() {
		return nil
	}
	lock, err := lockFile(ctx, p.where.lock(), sharedfile.Exclusive)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() { p.came = nil }()
	if p.isBlob() { // another process was quicker
		return nil
	}
	if err := p.open(); err != nil {
		return err
	}
	if err := p.load(); err != nil {
		return err
	}
	todo := p.missing(ranges)
	if len(todo) == 0 {
		return p.whenComplete()
	}
	var bytes int64
	for _, r := range todo {
		from, to := r.bytes(p.file.Size)
		bytes += to - from
	}
	if err := h.room(p.where, bytes); err != nil {
		return err
	}
	if err := p.where.own(); err != nil {
		return err
	}
	h.planned.Add(bytes)
	got := h.fetched.Load()
	err = bring(ctx, todo)
	if err != nil {
		h.planned.Add(min(0, h.fetched.Load()-got-bytes)) // nobody waits for the rest
		return err
	}
	return p.whenComplete()
}

func (p *part) whenComplete() error {
	if !p.complete() {
		return nil
	}
	return p.finish()
}

// transfer fetches runs, several at once.
func (h *Hub) transfer(ctx context.Context, n Name, commit string, p *part, todo []run) error {
	if h.cfg.Offline {
		return failed(ErrOffline, nil, "%s of %s is in the cache in part only, and HF_HUB_OFFLINE is set: unset it, or fetch the model first with `whorl models get %s`", p.file.Path, n.Repo, n.Repo)
	}
	link := h.cfg.Endpoint + "/" + n.Repo + "/resolve/" + commit + "/" + escape(p.file.Path)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, h.cfg.Parallel))
	for _, r := range todo {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error { return h.fetchRun(gctx, n, link, p, r) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// fetchRun fetches one run, going on where a transfer broke off.
func (h *Hub) fetchRun(ctx context.Context, n Name, link string, p *part, r run) error {
	from, to := r.bytes(p.file.Size)
	at := from
	err := h.retried(ctx, func(ctx context.Context) (bool, error) {
		before := at
		err := h.fetchRange(ctx, n, link, p.file, at, to, func(b []byte) error {
			if _, err := p.data.WriteAt(b, at); err != nil {
				return onDisk(err, p.where.part())
			}
			at += int64(len(b))
			h.fetched.Add(int64(len(b)))
			return nil
		})
		return at > before, err
	})
	if err != nil {
		return err
	}
	return p.wrote(r)
}

// fetchRange makes one request for bytes [from, to) of a file and hands them to write in
// order.
func (h *Hub) fetchRange(ctx context.Context, n Name, link string, f File, from, to int64, write func([]byte) error) error {
	ctx, alive, stop := h.idle(ctx)
	defer stop()
	rng := ""
	if from > 0 || to < f.Size {
		rng = fmt.Sprintf("bytes=%d-%d", from, to-1)
	}
	r, err := h.get(ctx, link, rng)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return h.unreachable(err)
	}
	defer r.Body.Close()
	if err := h.answered(r, n, f.Path); err != nil {
		return err
	}
	body := alive(r.Body)
	if err := rangeAnswered(r, f, from, to); err != nil {
		return err
	}
	if r.StatusCode == http.StatusOK && from > 0 { // it does not serve ranges
		if _, err := io.CopyN(io.Discard, body, from); err != nil {
			return h.unreachable(err)
		}
	}
	buf := make([]byte, 64<<10)
	for from < to {
		k, err := body.Read(buf[:min(int64(len(buf)), to-from)])
		if werr := write(buf[:k]); werr != nil {
			return werr
		}
		from += int64(k)
		if from < to && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return h.unreachable(err)
		}
	}
	return nil
}

// rangeAnswered checks that an answer is about the bytes asked for, of the file asked for.
func rangeAnswered(r *http.Response, f File, from, to int64) error {
	changed := func(format string, a ...any) error {
		return failed(ErrDamaged, nil, "%s of the hub %s: it changed, or a proxy is in the way", f.Path, fmt.Sprintf(format, a...))
	}
	if r.StatusCode == http.StatusOK {
		if r.ContentLength >= 0 && r.ContentLength != f.Size {
			return changed("has %d bytes instead of %d", r.ContentLength, f.Size)
		}
		return nil
	}
	var a, b, size int64
	if _, err := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &a, &b, &size); err != nil {
		return changed("came as the range %.60q", r.Header.Get("Content-Range"))
	}
	if a != from || b != to-1 || size != f.Size {
		return changed("came as bytes %d to %d of %d instead of %d to %d of %d", a, b, size, from, to-1, f.Size)
	}
	return nil
}
