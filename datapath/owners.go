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
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// Peers are the other gateways of a cluster. A chunk that is neither in memory nor on disk here is
// requested from them before it is read from the store. Their answers affect speed only, never the
// bytes of a batch. All methods except Read are called for many chunks and under locks of the path.
// So they must return quickly, and must neither block nor call the path.
type Peers interface {
	// Owner returns the member that owns a chunk, or the next choice after the members in
	// asked. It returns "" for this gateway, and if no other member should be asked now.
	Owner(c peer.Chunk, asked ...string) (member string)
	// Former returns a member that owned a chunk until recently, or "" if none is known.
	Former(c peer.Chunk) (member string)
	// Share returns the share of a generation's chunks that this gateway owns: above 0, and at
	// most 1.
	Share(generation string) float64
	// View returns a number that changes when Owner or Share may return other results.
	View() uint64
	// Read asks one member once and fills dst: one slice for each range of the query, in order.
	// It does not check the bytes. instead, unless nil, gets the same ranges from elsewhere:
	// concurrently if the member is late, or after the member has failed. When it runs
	// concurrently, it must not write to dst. Read returns when both have ended.
	// peer.ErrOutdone reports that instead got the bytes. After any other error neither has
	// them, and the caller reads the store.
	Read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error
	// Lied reports that a member sent bytes that differ from the index.
	Lied(member string)
}

// Instead gets ranges that were requested from a member from elsewhere. If concurrent is true, the
// request to the member continues; otherwise it has failed. Instead returns nil if it got all
// ranges or, after a failure, some of them.
type Instead = func(ctx context.Context, concurrent bool) error

// Share names the dataset, for the counters of its store reads and for the path's peers, if it has
// any. From then on, until Close, peers send queries for it. So call KeepOnDisk before Share, and
// Read only afterwards.
func (s *Source) Share(name string) {
	s.path.mu.Lock()
	defer s.path.mu.Unlock()
	s.reads = s.path.readsOf(name)
	if s.path.cfg.Peers != nil {
		s.name = name
	}
}

// sharedAs begins a use of the source that is shared under a name. It returns nil if no source has
// this name and generation.
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

// owners caches the owners of one dataset's chunks in one view, since computing an owner takes a
// hash for each member. Pages are allocated at their first use, since owners may be created under
// locks. All pages take 8 bytes per chunk.
type owners struct {
	view  uint64
	pages []atomic.Pointer[ownersPage]
	names sync.Map // names of members, to keep one copy of each in memory
	held  int64    // bytes of memory that the chunks of this gateway take
}

// ownersPage has the owners of consecutive chunks: "" is this gateway, nil is unknown.
type ownersPage [1024]atomic.Pointer[string]

func newOwners(view uint64, chunks int, held int64) *owners {
	return &owners{view: view, pages: make([]atomic.Pointer[ownersPage], (chunks+len(ownersPage{})-1)/len(ownersPage{})), held: held}
}

// of returns the cell for the owner of a chunk.
func (o *owners) of(chunk int) *atomic.Pointer[string] {
	p := &o.pages[chunk/len(ownersPage{})]
	if p.Load() == nil {
		p.CompareAndSwap(nil, new(ownersPage))
	}
	return &p.Load()[chunk%len(ownersPage{})]
}

// owner returns the member that owns a chunk, "" for this gateway. It takes a lock only for the
// first lookup of a chunk in a view.
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

// ownersNow returns the owners in the current view.
func (s *Source) ownersNow() *owners {
	for {
		peers, is := s.path.cfg.Peers, s.owners.Load()
		view := peers.View()
		if is != nil && is.view == view {
			return is
		}
		held := float64(s.cost) * peers.Share(s.index.Generation()) * policy.Spread
		fresh := newOwners(view, s.index.Chunks(), min(int64(held), s.cost))
		if s.owners.CompareAndSwap(is, fresh) {
			return fresh
		}
	}
}

// peerChunk returns the identity of a chunk in queries to peers.
func (s *Source) peerChunk(chunk int) peer.Chunk {
	return peer.Chunk{DatasetGeneration: peer.DatasetGeneration{Dataset: s.name, Generation: s.index.Generation()}, Number: chunk, Digest: s.index.Chunk(chunk).Digest}
}

// mine reports whether this gateway owns a chunk of a dataset.
func mine(d lookahead.Dataset, chunk int) bool {
	s := d.(*Source)
	return s.name == "" || s.owner(chunk) == ""
}

// reown updates the table of readers if peers have joined or left. When it returns the table is
// current, even if another goroutine updated it.
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

// held returns the number of bytes of memory that the chunks of this gateway take.
func (s *Source) held() int64 {
	if s.name == "" {
		return s.cost
	}
	return s.ownersNow().held
}

// split divides a batch into its near part, which this gateway reads itself, and its far part.
// Peers own the chunks of the far part, and these are not in memory here, nor being loaded, nor on
// disk.
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

// elsewhere returns the member to ask for a chunk, or "" to read it here.
func (s *Source) elsewhere(chunk int) string {
	member := s.owner(chunk)
	if member == "" || s.whereIs(chunk) != notHere {
		return ""
	}
	return member
}

// longThink is the longest think time that is sent to peers: a reader with a longer one needs no
// prefetch.
const longThink = time.Hour

// forPeers sets the reader of a batch, so that peers that receive queries for a part of it can
// prefetch.
func (b *request) forPeers(at shuffle.Cursor, v *visit) {
	b.reader = &peer.Reader{Params: at.Plan.Params(), Epoch: at.Epoch.Number(), Cursor: at, Think: min(v.Think, longThink)}
	b.reader.Plan, b.reader.Cursor.Epoch = nil, nil
}

// of returns a request for some of the chunks of b.
func (b *request) of(chunks []batch.ChunkRanges) *request {
	part := *b
	part.chunks, part.bytes = chunks, 0
	for _, c := range chunks {
		part.bytes += bytesOf(c)
	}
	return &part
}

// askLimit bounds the memory of the batches that wait for owners.
type askLimit struct {
	max   int64
	bytes *semaphore.Weighted
}

func newAskLimit(total int64) *askLimit {
	n := max(total/policy.AskShare, 1)
	return &askLimit{n, semaphore.NewWeighted(n)}
}

// enter waits until n bytes fit under the limit, for at most budget.DefaultWait; after that the
// batch asks the owners regardless.
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
