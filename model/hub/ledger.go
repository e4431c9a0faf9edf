package hub

import (
	"sync"

	"whorl/content"
)

// syncEvery is how many chunks are on their way to the disk before the map tells of them. As
// many again may have come meanwhile: what a process that is killed may have to fetch again.
const syncEvery = maxRequest / 2

// ledger notes chunks of one file in its map once they are on the disk, while more come. add is
// safe for concurrent use; close it in the end.
type ledger struct {
	p    *part
	in   chan int
	done sync.WaitGroup

	mu  sync.Mutex // guards all below
	err error
}

func startLedger(p *part) *ledger {
	l := &ledger{p: p, in: make(chan int, syncEvery)}
	p.came = map[int]content.Hash{}
	l.done.Go(l.run)
	return l
}

// add notes a chunk that was written, and waits while too many are not on the disk.
func (l *ledger) add(chunk int, tree content.Hash) error {
	l.mu.Lock()
	l.p.came[chunk] = tree
	err := l.err
	l.mu.Unlock()
	if err == nil {
		l.in <- chunk
	}
	return err
}

func (l *ledger) run() {
	var batch []run
	put := func() {
		if len(batch) == 0 {
			return
		}
		err := l.p.wrote(batch...)
		batch = batch[:0]
		if err != nil {
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
		}
	}
	for c := range l.in {
		if batch = append(batch, run{c, c + 1}); len(batch) >= syncEvery {
			put()
		}
	}
	put()
}

// close waits until all is noted, and tells what went wrong.
func (l *ledger) close() error {
	close(l.in)
	l.done.Wait()
	return l.err
}
