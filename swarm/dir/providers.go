package dir

import (
	"container/list"
	"context"
	"strings"
	"sync"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// Bounds of what the DHT has a node remember for others. A node serves one model and says so
// every few minutes; what is lost comes again.
const (
	maxProviders        = 8192 // in all; beyond it the oldest goes
	maxProvidersPerPeer = 16   // beyond it the peer's own oldest goes
)

// providers is the store of the DHT's provider records, with bounds that the library lacks:
// it takes a key per message from anybody. Keys are /providers/KEY/PEER, values times. Safe
// for concurrent use.
type providers struct {
	mu    sync.Mutex // guards all below
	all   *list.List // of *provider, oldest first
	byKey map[string]map[string]*list.Element
	peers map[string]*list.List // of *list.Element, oldest first
}

// provider is one record.
type provider struct {
	key, peer string
	value     []byte
	own       *list.Element // in the peer's list
}

func newProviders() *providers {
	return &providers{all: list.New(), byKey: map[string]map[string]*list.Element{}, peers: map[string]*list.List{}}
}

// split cuts the last name off a key.
func split(k ds.Key) (key, peer string) {
	s := k.String()
	i := strings.LastIndexByte(s, '/')
	return s[:i], s[i+1:]
}

// Put replaces a record by a newer one.
func (p *providers) Put(_ context.Context, k ds.Key, value []byte) error {
	key, peer := split(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key][peer]; e != nil {
		p.drop(e)
	}
	own := p.peers[peer]
	if own == nil {
		own = list.New()
		p.peers[peer] = own
	}
	e := p.all.PushBack(&provider{key: key, peer: peer, value: value})
	e.Value.(*provider).own = own.PushBack(e)
	if p.byKey[key] == nil {
		p.byKey[key] = map[string]*list.Element{}
	}
	p.byKey[key][peer] = e
	if own.Len() > maxProvidersPerPeer {
		p.drop(own.Front().Value.(*list.Element))
	}
	if p.all.Len() > maxProviders {
		p.drop(p.all.Front())
	}
	return nil
}

// drop forgets a record; mu is held.
func (p *providers) drop(e *list.Element) {
	r := p.all.Remove(e).(*provider)
	if own := p.peers[r.peer]; own != nil {
		if own.Remove(r.own); own.Len() == 0 {
			delete(p.peers, r.peer)
		}
	}
	if delete(p.byKey[r.key], r.peer); len(p.byKey[r.key]) == 0 {
		delete(p.byKey, r.key)
	}
}

// find is a record, nil if there is none; mu is held.
func (p *providers) find(k ds.Key) *list.Element {
	key, peer := split(k)
	return p.byKey[key][peer]
}

// Delete forgets a record.
func (p *providers) Delete(_ context.Context, k ds.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.find(k); e != nil {
		p.drop(e)
	}
	return nil
}

// Get reads a record.
func (p *providers) Get(_ context.Context, k ds.Key) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.find(k); e != nil {
		return e.Value.(*provider).value, nil
	}
	return nil, ds.ErrNotFound
}

// Has tells whether there is a record.
func (p *providers) Has(ctx context.Context, k ds.Key) (bool, error) {
	_, err := p.Get(ctx, k)
	return err == nil, nil
}

// GetSize is the size of a record's value.
func (p *providers) GetSize(ctx context.Context, k ds.Key) (int, error) {
	v, err := p.Get(ctx, k)
	if err != nil {
		return -1, err
	}
	return len(v), nil
}

// Query lists the records of one key, or of all.
func (p *providers) Query(_ context.Context, q query.Query) (query.Results, error) {
	var out []query.Entry
	add := func(e *list.Element) {
		r := e.Value.(*provider)
		out = append(out, query.Entry{Key: r.key + "/" + r.peer, Value: r.value, Size: len(r.value)})
	}
	prefix := ds.NewKey(q.Prefix).String()
	p.mu.Lock()
	if one := p.byKey[prefix]; one != nil {
		for _, e := range one {
			add(e)
		}
	} else {
		for key, one := range p.byKey {
			if strings.HasPrefix(key, strings.TrimSuffix(prefix, "/")+"/") {
				for _, e := range one {
					add(e)
				}
			}
		}
	}
	p.mu.Unlock()
	q.Prefix = ""
	return query.NaiveQueryApply(q, query.ResultsWithEntries(q, out)), nil
}

// Batch collects changes.
func (p *providers) Batch(context.Context) (ds.Batch, error) { return ds.NewBasicBatch(p), nil }

// Sync has nothing to do.
func (p *providers) Sync(context.Context, ds.Key) error { return nil }

// Close has nothing to do.
func (p *providers) Close() error { return nil }

// uncached is the DHT's cache of records: it keeps none, since the store is in memory and
// bounded, and the library's cache is neither.
type uncached struct{}

func (uncached) Add(any, any) bool              { return false }
func (uncached) Get(any) (any, bool)            { return nil, false }
func (uncached) Contains(any) bool              { return false }
func (uncached) Peek(any) (any, bool)           { return nil, false }
func (uncached) Remove(any) bool                { return false }
func (uncached) RemoveOldest() (any, any, bool) { return nil, nil, false }
func (uncached) GetOldest() (any, any, bool)    { return nil, nil, false }
func (uncached) Keys() []any                    { return nil }
func (uncached) Len() int                       { return 0 }
func (uncached) Purge()                         {}
func (uncached) Resize(int) int                 { return 0 }
