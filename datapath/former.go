package datapath

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/pause"
	"github.com/millrace-data/millrace/internal/tracing"
)

// formerWait is the timeout for a former owner. After it the chunk is read from the store.
const formerWait = 2 * time.Second

// former returns the former owner of a chunk that this gateway has owned only recently. It returns
// "" if no former owner is known, or if that peer recently failed to send several chunks. It is
// called under the cache's lock.
func (s *Source) former(chunk int) string {
	if s.name == "" || s.owner(chunk) != "" {
		return ""
	}
	member := s.path.cfg.Peers.Former(s.peerChunk(chunk))
	if member != "" && s.path.formers.silent.Paused(member, time.Now()) {
		return ""
	}
	return member
}

const (
	formerMisses = 4               // number of consecutive chunks that a former owner did not send, and
	formerRests  = 2 * time.Second // pause after them: in a new cluster no gateway has any chunks
)

// formers is the tier of former owners: gateways that owned chunks before this gateway did.
type formers struct {
	next   tier
	silent *pause.List[string] // members that had nothing to send
}

// Load asks the former owner of a chunk for the whole chunk. The former owner sends the chunk if it
// is in its memory or on its disk. It queries no other gateway, loads nothing and waits for no
// load. So gateways cannot deadlock, even if the chunk is loaded to answer a peer.
func (f *formers) Load(ctx context.Context, l *load, fills []*fill) error {
	member := ""
	if fills[0].whole != nil && len(fills) == 1 {
		member = l.source.former(fills[0].Chunk)
	}
	switch {
	case member == "":
	case f.ask(ctx, l.source, member, fills[0]):
		f.silent.Forget(member)
		return nil
	case ctx.Err() == nil: // otherwise the query was canceled, which is no evidence against the member
		f.silent.Failed(member, time.Now())
	}
	return f.next.Load(ctx, l, fills)
}

// ask asks a member for a chunk, and reports whether it sent the right bytes.
func (f *formers) ask(ctx context.Context, s *Source, member string, x *fill) bool {
	dst, desc := x.whole.Bytes(), s.index.Chunk(x.Chunk)
	q := &peer.Query{
		Dataset: s.name, Generation: s.index.Generation(), Cached: true,
		Chunks: []peer.ChunkQuery{{Chunk: x.Chunk, Digest: desc.Digest, Ranges: []peer.Range{{Length: uint32(len(dst))}}}},
	}
	ctx, span := tracing.Start(ctx, "former owner")
	defer span.End()
	span.Number("millrace.chunk", int64(x.Chunk))
	ctx, cancel := context.WithTimeout(ctx, formerWait)
	defer cancel()
	if s.path.read(ctx, member, q, [][]byte{dst}, nil) != nil {
		return false
	}
	if !s.intact(desc, dst, checksum(dst)) {
		s.path.lied(member)
		return false
	}
	s.path.peerCounts.former.Add(1)
	x.whole.Publish()
	return true
}

// Pull copies chunks of one generation from a leaving member, in the given order, as far as memory
// is free. It copies only chunks that this gateway owns from now on. It ends when all are copied,
// when ctx ends, or when the member fails to send several chunks in a row. Those chunks are then
// read from the store, since requests may already wait for them. The other chunks are loaded when
// they are needed.
func (p *Path) Pull(ctx context.Context, member string, held peer.ChunkList) {
	s := p.sharedAs(held.Dataset, held.Generation)
	if s == nil {
		return
	}
	defer s.leave()
	ctx, end := s.until(ctx)
	defer end()
	w := &warming{source: s}
	defer w.running.Wait()
	for _, n := range held.Chunks {
		chunk := int(n)
		if chunk >= s.index.Chunks() || s.finds(chunk) || s.isOnDisk(chunk) {
			continue
		}
		if p.gate.enterWarm(ctx) != nil {
			return
		}
		sends := s.former(chunk) == member
		if !sends || p.free() < s.Cost(chunk) || !w.bring(ctx, chunk, true) {
			p.gate.leaveWarm(true)
			if sends || p.formers.silent.Paused(member, time.Now()) {
				return
			}
		}
	}
}
