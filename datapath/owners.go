package datapath

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// Peers are the other gateways of a cluster. They are asked for what is neither in memory nor on disk here,
// before the store. Whatever they say changes speed and who is asked, never bytes. All but Read are called for many chunks and
// under locks of the path: they must be quick, wait for nothing and not call the path.
type Peers interface {
	// Owner returns the member that is to hold a chunk, the next choice where some have been asked
	// already; "" for this gateway, and where nobody else should be asked now.
	Owner(c peer.Chunk, asked ...string) (member string)
	// Former returns a member that may hold a chunk that has come to this gateway lately, "" if
	// none is known.
	Former(c peer.Chunk) (member string)
	// Share returns which part of a generation's chunks this gateway is to hold, above 0, at most
	// 1.
	Share(generation string) float64
	// View changes when Owner or Share may answer otherwise than before.
	View() uint64
	// Read asks one member, once, and fills dst: one slice for each range of the query, in order.
	// Nothing of it is checked. instead, unless nil, brings the same from elsewhere: beside the
	// member where that is late, so that dst is not to be written, or after it has failed. Read
	// returns when both have ended. peer.ErrOutdone says that instead has brought the bytes;
	// another error, that nobody has: the store is to be asked.
	Read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error
	// Lied says that what a member sent was not what the index says.
	Lied(member string)
}

// Instead brings from elsewhere what a member was asked for. It returns nil where it could bring
// what the member has not: all of it beside the member, something of it after the member.
type Instead = func(ctx context.Context, beside bool) error

// Share makes the dataset one of those that the path shares with its peers, if it has any, until Close.
// Peers know the dataset by this name, and ask for it from then on: so KeepOnDisk must be called before,
// and the first Read comes after.
func (s *Source) Share(name string) {
	if s.path.cfg.Peers != nil {
		s.path.mu.Lock()
		defer s.path.mu.Unlock()
		s.name = name
	}
}

// sharedAs enters the source that peers know by a name, nil if there is none of this generation.
func (p *Path) sharedAs(name, generation string) *Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slices.Backward(p.open) {
		if s.name == name && s.index.Generation() == generation && s.enter() {
			return s
		}
	}
	return nil
}

// spread is by how much more than its share a gateway may own: placement evens it out to that.
const spread = 1.07

// owners remembers who owns the chunks of one dataset in one view: to ask for it anew takes a hash
// for each member. Its pages are made when they are first used, since that may be under locks: all of them take 8 bytes
// for each chunk.
type owners struct {
	view  uint64
	pages []atomic.Pointer[ownersPage]
	names sync.Map // of members, each to the one copy of it in memory
	held  int64    // bytes of memory that the chunks take that are to be held here
}

// ownersPage has the owners of consecutive chunks, "" for this gateway; nil: not asked for yet.
type ownersPage [1024]atomic.Pointer[string]

func newOwners(view uint64, chunks int, held int64) *owners {
	return &owners{view: view, pages: make([]atomic.Pointer[ownersPage], (chunks+len(ownersPage{})-1)/len(ownersPage{})), held: held}
}

// of returns where the owner of a chunk is.
func (o *owners) of(chunk int) *atomic.Pointer[string] {
	p := &o.pages[chunk/len(ownersPage{})]
	if p.Load() == nil {
		p.CompareAndSwap(nil, new(ownersPage))
	}
	return &p.Load()[chunk%len(ownersPage{})]
}

// owner returns the member that is to hold a chunk, "" if that is this gateway. It takes no lock but for the first answer
// about a chunk in a view.
func (s *Source) owner(chunk int) string {
	o := s.ownersNow()
	of := o.of(chunk)
	if member := of.Load(); member != nil {
		return *member
	}
	member := s.path.cfg.Peers.Owner(s.peerChunk(chunk))
	name, _ := o.names.LoadOrStore(member, &member)
	of.Store(name.(*string))
	return member
}

// ownersNow returns the owners in the view of now.
func (s *Source) ownersNow() *owners {
	for {
		peers, is := s.path.cfg.Peers, s.owners.Load()
		view := peers.View()
		if is != nil && is.view == view {
			return is
		}
		held := float64(s.cost) * peers.Share(s.index.Generation()) * spread
		fresh := newOwners(view, s.index.Chunks(), min(int64(held), s.cost))
		if s.owners.CompareAndSwap(is, fresh) {
			return fresh
		}
	}
}

// peerChunk names a chunk to peers.
func (s *Source) peerChunk(chunk int) peer.Chunk {
	return peer.Chunk{DatasetGeneration: peer.DatasetGeneration{Dataset: s.name, Generation: s.index.Generation()}, Number: chunk, Digest: s.index.Chunk(chunk).Digest}
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

// held returns how many bytes of memory the chunks take that are to be held here.
func (s *Source) held() int64 {
	if s.name == "" {
		return s.cost
	}
	return s.ownersNow().held
}

// split divides a batch into its near part, which this gateway brings itself, and its far part, which
// it asks others for: what they own and is not in memory here, nor on its way there, nor on disk.
func (s *Source) split(b *request) (near *request, far request) {
	if s.name == "" {
		return b, request{}
	}
	var here, away []batch.ChunkRanges
	for _, c := range b.chunks {
		if s.elsewhere(c.Chunk) == "" {
			here = append(here, c)
		} else {
			away = append(away, c)
		}
	}
	return b.of(here), *b.of(away)
}

// elsewhere returns the member that is to be asked for a chunk, "" if none is.
func (s *Source) elsewhere(chunk int) string {
	member := s.owner(chunk)
	if member == "" || s.whereIs(chunk) != notHere {
		return ""
	}
	return member
}

// longThink is the longest time between two batches that is told: whoever needs longer is in no
// hurry.
const longThink = time.Hour

// forPeers says who reads a batch, so that those who are asked for a part of it can fetch ahead.
func (b *request) forPeers(at shuffle.Cursor, v *visit) {
	b.reader = &peer.Reader{Params: at.Plan.Params(), Epoch: at.Epoch.Number(), Cursor: at, Think: min(v.Think, longThink)}
	b.reader.Plan, b.reader.Cursor.Epoch = nil, nil
}

// of returns the part of a batch that some of its chunks are.
func (b *request) of(chunks []batch.ChunkRanges) *request {
	part := *b
	part.chunks, part.bytes = chunks, 0
	for _, c := range chunks {
		part.bytes += bytesOf(c)
	}
	return &part
}

// askShare is the part of the budget that batches may hold together while they wait for owners, a
// half: chunks that this gateway loads to answer peers need the other half. Without the limit many
// batches at once would fill all gateways with empty bodies, no owner could load a chunk, and each
// gateway would read the store for itself.
const askShare = 2

// askLimit bounds the memory of the batches that wait for owners.
type askLimit struct {
	max   int64
	bytes *semaphore.Weighted
}

func newAskLimit(total int64) *askLimit {
	n := max(total/askShare, 1)
	return &askLimit{n, semaphore.NewWeighted(n)}
}

// enter waits for a turn to ask for n bytes, but for budget.DefaultWait at most: then the batch asks
// without a turn.
func (a *askLimit) enter(ctx context.Context, n int64) (leave func()) {
	n = min(n, a.max)
	leave = func() { a.bytes.Release(n) }
	if a.bytes.TryAcquire(n) {
		return leave
	}
	ctx, span := tracing.Start(ctx, "wait for a turn")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, budget.DefaultWait)
	defer cancel()
	if a.bytes.Acquire(ctx, n) != nil {
		return func() {}
	}
	return leave
}
