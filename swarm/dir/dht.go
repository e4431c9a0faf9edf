package dir

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ipfs/go-cid"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	krecords "github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"

	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/p2p"
)

// newDHT makes a table of this swarm alone. Server mode is forced: the automatic mode waits
// for an address of the public internet, which a private swarm never has. For the same
// reason private addresses are kept.
func newDHT(h *p2p.Host, cfg Config) (*dht.IpfsDHT, error) {
	mode := dht.ModeServer
	if cfg.Client {
		mode = dht.ModeClient
	}
	small := &narrowHost{Host: h.Libp2p(), net: h.NetOf, streams: budget.New("streams of the DHT", dhtStreams)}
	if err := budget.Register(cfg.Registerer, small.streams); err != nil {
		return nil, err
	}
	return dht.New(small,
		dht.ProtocolPrefix(protocol.ID("/whorl/"+cfg.Swarm)), dht.Mode(mode), dht.DisableValues(),
		dht.AddressFilter(func(a []ma.Multiaddr) []ma.Multiaddr { return a }),
		dht.ProviderDatastore(newProviders()),
		dht.ProviderManagerOpts(krecords.ProvideValidity(provideValidity), krecords.ProviderAddrTTL(provideValidity), krecords.Cache(uncached{})))
}

// key is where the providers of a model are listed.
func key(uid swarm.UID) (cid.Cid, error) {
	h, err := multihash.Sum([]byte("whorl model "+uid), multihash.SHA2_256, -1)
	if err != nil {
		return cid.Undef, err
	}
	return cid.NewCidV1(cid.Raw, h), nil
}

// provideAndFind keeps the provider record of what this node serves alive, and looks for
// providers of models that were asked for lately.
func (d *Directory) provideAndFind(ctx context.Context) {
	provided, found := map[swarm.UID]time.Time{}, map[swarm.UID]time.Time{}
	tick := time.NewTicker(d.cfg.Refresh)
	defer tick.Stop()
	for {
		own, wanted := d.due(provided, found)
		if own != "" && d.host.Connected() > 0 && d.provide(ctx, own) == nil {
			provided[own] = d.cfg.Clock()
		}
		for _, uid := range wanted {
			found[uid] = d.cfg.Clock()
			d.find(ctx, uid)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// due tells what must be provided now, "" for nothing, and which models must be searched.
func (d *Directory) due(provided, found map[swarm.UID]time.Time) (own swarm.UID, wanted []swarm.UID) {
	now := d.cfg.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own != nil && d.own.State >= swarm.Joining && now.Sub(provided[d.own.UID]) > provideEvery {
		own = d.own.UID
	}
	for uid, at := range d.wanted {
		switch {
		case now.Sub(at) > provideValidity:
			delete(d.wanted, uid)
			delete(found, uid)
		case now.Sub(found[uid]) > findEvery:
			wanted = append(wanted, uid)
		}
	}
	return own, wanted
}

func (d *Directory) provide(ctx context.Context, uid swarm.UID) error {
	c, err := key(uid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	if err := d.dht.Provide(ctx, c, true); err != nil {
		d.cfg.Log.Debug("cannot provide", "model", uid, "reason", err)
		return err
	}
	return nil
}

// findWanted looks for providers of what was asked for, and tells whether one of them answered.
func (d *Directory) findWanted(ctx context.Context) bool {
	d.mu.Lock()
	wanted := slices.Sorted(maps.Keys(d.wanted))
	d.mu.Unlock()
	answered := 0
	for _, uid := range wanted {
		answered += d.find(ctx, uid)
	}
	return answered > 0
}

// find connects to providers of a model that are not known yet and pulls from them; answered is
// how many of them told something.
func (d *Directory) find(ctx context.Context, uid swarm.UID) (answered int) {
	c, err := key(uid)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	for info := range d.dht.FindProvidersAsync(ctx, c, findLimit) {
		p := swarm.PeerID(info.ID.String())
		if info.ID == d.host.Libp2p().ID() || d.knows(p) {
			continue
		}
		if d.host.Libp2p().Connect(ctx, peer.AddrInfo{ID: info.ID, Addrs: info.Addrs}) != nil {
			continue
		}
		if d.exchange(ctx, p) == nil {
			answered++
		}
		if d.knows(p) {
			d.metrics.finds.WithLabelValues(byDHT).Inc()
		}
	}
	return answered
}
