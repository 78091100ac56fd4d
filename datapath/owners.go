package datapath

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// Share makes the dataset one of those that the path shares with its peers, if it has any. They know it by this name. It must be
// called before the first Read.
func (s *Source) Share(name string) {
	if s.path.cfg.Peers == nil {
		return
	}
	s.name = name
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

// owners remembers who owns the chunks of one dataset in one view: to ask for it anew takes a hash for each member.
type owners struct {
	view  uint64
	of    []atomic.Uint32          // of each chunk: the place of its owner's name, from 1 on; 0: not asked for yet
	names atomic.Pointer[[]string] // in the order in which they were met; "" is this gateway
	mu    sync.Mutex               // held to add a name
}

// owner returns the member that is to hold a chunk, "" if that is this gateway. It takes no lock but for the first answer
// about a chunk in a view.
func (s *Source) owner(chunk int) string {
	o := s.ownersNow()
	n := o.of[chunk].Load()
	if n == 0 {
		n = o.note(s.path.cfg.Peers.Owner(s.peerChunk(chunk)))
		o.of[chunk].Store(n)
	}
	return (*o.names.Load())[n-1]
}

// ownersNow returns the owners in the view of now.
func (s *Source) ownersNow() *owners {
	for {
		view, is := s.path.cfg.Peers.View(), s.owners.Load()
		if is != nil && is.view == view {
			return is
		}
		fresh := &owners{view: view, of: make([]atomic.Uint32, s.index.Chunks())}
		fresh.names.Store(new([]string))
		if s.owners.CompareAndSwap(is, fresh) {
			return fresh
		}
	}
}

// note returns the place of a name, from 1 on.
func (o *owners) note(member string) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := *o.names.Load()
	i := slices.Index(names, member)
	if i < 0 {
		i = len(names)
		names = append(slices.Clip(names), member)
		o.names.Store(&names)
	}
	return uint32(i) + 1
}

// peerChunk names a chunk to peers.
func (s *Source) peerChunk(chunk int) peer.Chunk {
	return peer.Chunk{Dataset: s.name, Generation: s.index.Generation(), Number: chunk, Digest: s.index.Chunk(chunk).Digest}
}

// mine reports whether a chunk of a dataset is kept here.
func mine(d lookahead.Dataset, chunk int) bool {
	s := d.(*Source)
	return s.name == "" || s.owner(chunk) == ""
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
