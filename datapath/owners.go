package datapath

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// Share makes the dataset one of those that the path shares with its peers, if it has any. They know it by this name. It must be
// called before the first Read.
func (s *Source) Share(name string) {
	if s.path.cfg.Peers == nil {
		return
	}
	s.name = name
	s.owners.Store(new([]*owners))
	s.boundOwners()
	p := s.path
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = map[string]*Source{}
	}
	p.shared[name] = s
}

// sharedAs returns the source that peers know by a name, nil if there is none of this generation.
func (p *Path) sharedAs(name, generation string) *Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shared[name]; s != nil && s.index.Generation() == generation {
		return s
	}
	return nil
}

const (
	keptOwners  = 8  // for so many plans of a dataset the owners of its chunks are remembered,
	ownerBytes  = 4  // for each chunk,
	ownersShare = 64 // and for fewer where they would take more than a sixty-fourth of the budget
)

// boundOwners sets how many tables of owners there are at most. They are beside the budget, like the readers' plans: a batch that takes
// all of it must still find room. One there always is: a fifteenth of what the index takes.
func (s *Source) boundOwners() {
	one := ownerBytes * int64(s.index.Chunks())
	s.tables = int(max(min(keptOwners, s.path.budget.Total()/ownersShare/max(one, 1)), 1))
}

// Owners in the table of them. Others count on from there, in the order in which they were met.
const (
	unknownOwner = iota
	ownedHere
	firstOwner
)

// owners remembers who owns the chunks of one dataset in one view: to ask for it anew takes a hash for each member. Orders that
// give chunks a place of their own have tables of their own.
type owners struct {
	view   uint64
	params shuffle.Params // none where the order gives chunks no place
	of     []atomic.Uint32
	names  atomic.Pointer[[]string]
	mu     sync.Mutex // held to add a name
}

// owner returns the member that is to hold a chunk for readers of a plan (nil: of none), "" if that is this gateway. It takes
// no lock but for the first answer about a chunk in a view.
func (s *Source) owner(plan *shuffle.Plan, chunk int) string {
	o := s.ownersOf(plan)
	n := o.of[chunk].Load()
	if n == unknownOwner {
		n = o.note(s.path.cfg.Peers.Owner(s.peerChunk(plan, chunk)))
		o.of[chunk].Store(n)
	}
	if n == ownedHere {
		return ""
	}
	return (*o.names.Load())[n-firstOwner]
}

// ownersOf returns the table for a plan in the view of now.
func (s *Source) ownersOf(plan *shuffle.Plan) *owners {
	var params shuffle.Params
	if plan != nil {
		if is := plan.Params(); placed(is) {
			params = is
		}
	}
	for {
		view, list := s.path.cfg.Peers.View(), s.owners.Load()
		for _, o := range *list {
			if o.view == view && o.params == params {
				return o
			}
		}
		fresh := &owners{view: view, params: params, of: make([]atomic.Uint32, s.index.Chunks())}
		fresh.names.Store(new([]string))
		kept := slices.DeleteFunc(slices.Clone(*list), func(o *owners) bool { return o.view != view })
		kept = append(kept[max(len(kept)-s.tables+1, 0):], fresh)
		if s.owners.CompareAndSwap(list, &kept) {
			return fresh
		}
	}
}

// placed reports whether an order gives chunks a place, by which numbered gateways own them.
func placed(p shuffle.Params) bool { return p.Shuffle == shuffle.Slot || p.Strata > 0 }

// note returns the number of a member in the table.
func (o *owners) note(member string) uint32 {
	if member == "" {
		return ownedHere
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	names := *o.names.Load()
	i := slices.Index(names, member)
	if i < 0 {
		i = len(names)
		names = append(slices.Clip(names), member)
		o.names.Store(&names)
	}
	return uint32(i) + firstOwner
}

// peerChunk names a chunk to peers, for readers of a plan.
func (s *Source) peerChunk(plan *shuffle.Plan, chunk int) peer.Chunk {
	c := peer.Chunk{
		Dataset: s.name, Generation: s.index.Generation(), Number: chunk, Digest: s.index.Chunk(chunk).Digest,
	}
	if plan != nil {
		c.Place, c.Of = plan.Home(uint64(chunk))
	}
	return c
}

// mine reports whether a chunk of a dataset is kept here for readers of a plan.
func mine(d lookahead.Dataset, plan *shuffle.Plan, chunk int) bool {
	s := d.(*Source)
	return s.name == "" || s.owner(plan, chunk) == ""
}

// reown tells the table of readers if peers have come or gone. When it returns the table knows, whoever told it.
func (p *Path) reown() {
	if p.cfg.Peers == nil || p.view.Load() == p.cfg.Peers.View() {
		return
	}
	p.reowning.Lock()
	defer p.reowning.Unlock()
	view := p.cfg.Peers.View()
	if p.view.Load() == view {
		return
	}
	p.readers.Reowned()
	p.flights.keep(p.readers.Horizon())
	p.look()
	p.view.Store(view)
}

// part is how much memory those chunks of a dataset take that this gateway is to hold, in one view.
type part struct {
	known bool
	view  uint64
	cost  int64
}

// spread is by how much more than its share a gateway may own: placement evens it out to that.
const spread = 1.07

// held returns how much memory the chunks take that are to be held here. The caller holds the path's lock.
func (s *Source) held() int64 {
	if s.name == "" {
		return s.cost
	}
	peers := s.path.cfg.Peers
	if view := peers.View(); !s.part.known || s.part.view != view {
		cost := float64(s.cost) * peers.Share(s.index.Generation()) * spread
		s.part = part{true, view, min(int64(cost), s.cost)}
	}
	return s.part.cost
}
