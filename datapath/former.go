package datapath

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/pause"
	"github.com/millrace-data/millrace/internal/tracing"
)

// formerWait is how long a peer may take for a chunk that it is thought to have: then the store is asked.
const formerWait = 2 * time.Second

// former returns the former owner of a chunk that has come to this gateway lately, "" if none is
// known, or if that peer has had nothing of late. It is called under the cache's lock.
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
	formerMisses = 4               // chunks one after another that a former owner did not send, and
	formerRests  = 2 * time.Second // for so long it is not asked: where all gateways are new, none has anything
)

// formers is the tier of the gateways that held chunks before they came to this one.
type formers struct {
	next   tier
	silent *pause.List[string] // the members that had nothing to send
}

func newFormers(next tier) formers {
	return formers{next, pause.NewList[string](pause.Rule{Failures: formerMisses, First: formerRests})}
}

// Load asks the former owner of a chunk for all of it. That gateway sends what is in its memory or on
// its disk: it asks nobody, loads nothing and waits for no load. So gateways cannot wait for each
// other in a circle, also where the chunk is loaded to answer a peer.
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
	case ctx.Err() == nil: // else the question was given up, which says nothing of the member
		f.silent.Failed(member, time.Now())
	}
	return f.next.Load(ctx, l, fills)
}

// ask reports whether a member has sent a chunk.
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

// Pull brings chunks of one generation that a leaving member holds, those that are this gateway's from now on, in the order in which they
// are given, as far as memory is free. It ends when all are there, when ctx ends, or when the member has not sent some: those come from
// the store, for somebody may wait for them by then, and the others are left to whoever needs them.
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
		comes := s.former(chunk) == member
		if !comes || p.free() < s.Cost(chunk) || !w.bring(ctx, chunk, true) {
			p.gate.leaveWarm(true)
			if comes || p.formers.silent.Paused(member, time.Now()) {
				return
			}
		}
	}
}
