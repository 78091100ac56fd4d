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
	if s.path.cfg.Peers != nil {
		s.name = name
	}
}

// sharedAs returns the source that peers know by a name, nil if there is none of this generation.
func (p *Path) sharedAs(name, generation string) *Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slices.Backward(p.open) {
		if s.name == name && s.index.Generation() == generation {
			return s
		}
	}
	return nil
}

// owners remembers who owns the chunks of one dataset in one view: to ask for it anew takes a hash for each member.
type owners struct {
	view  uint64
	of    []atomic.Pointer[string] // of each chunk: its owner, "" for this gateway; nil: not asked for yet
	names sync.Map                 // of members, each to the one copy of it in memory
}

// owner returns the member that is to hold a chunk, "" if that is this gateway. It takes no lock but for the first answer
// about a chunk in a view.
func (s *Source) owner(chunk int) string {
	o := s.ownersNow()
	if member := o.of[chunk].Load(); member != nil {
		return *member
	}
	member := s.path.cfg.Peers.Owner(s.peerChunk(chunk))
	name, _ := o.names.LoadOrStore(member, &member)
	o.of[chunk].Store(name.(*string))
	return member
}

// ownersNow returns the owners in the view of now.
func (s *Source) ownersNow() *owners {
	for {
		view, is := s.path.cfg.Peers.View(), s.owners.Load()
		if is != nil && is.view == view {
			return is
		}
		fresh := &owners{view: view, of: make([]atomic.Pointer[string], s.index.Chunks())}
		if s.owners.CompareAndSwap(is, fresh) {
			return fresh
		}
	}
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
