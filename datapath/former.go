package datapath

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/pause"
)

// formerWait is how long a peer may take for a chunk that it is thought to have: then the store is asked.
const formerWait = 2 * time.Second

// former returns the former owner of a chunk that has come to this gateway lately, "" if none is known, or if that peer has had
// nothing of late. It is called under the cache's lock.
func (f *fetch) former(chunk int) string {
	s := f.source
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

// Load asks the former owner of a chunk for all of it.
func (f *formers) Load(ctx context.Context, l *load, fills []*fill) error {
	if l.fetch != nil && len(fills) == 1 && l.fetch.fromPeer(ctx, fills[0].whole) {
		return nil
	}
	return f.next.Load(ctx, l, fills)
}

// fromPeer brings a chunk from the gateway that held it before, and reports whether it did. That one sends what is in its memory or on
// its disk: it asks nobody, loads nothing and waits for no load. So nobody can wait for each other in a circle, also where
// this chunk is loaded to answer a peer.
func (f *fetch) fromPeer(ctx context.Context, fill *chunkcache.Fill[key]) (sent bool) {
	s, chunk := f.source, fill.Chunk
	member := f.former(chunk)
	if member == "" {
		return false
	}
	defer func() {
		if silent := s.path.formers.silent; sent {
			silent.Forget(member)
		} else {
			silent.Failed(member, time.Now())
		}
	}()
	p, dst, desc := s.path, fill.Bytes(), s.index.Chunk(chunk)
	q := &peer.Query{
		Dataset: s.name, Generation: s.index.Generation(), Cached: true,
		Chunks: []peer.Wanted{{Chunk: chunk, Digest: desc.Digest, Ranges: []chunkindex.Range{{Length: uint32(len(dst))}}}},
	}
	ctx, cancel := context.WithTimeout(ctx, formerWait)
	defer cancel()
	if p.read(ctx, member, q, [][]byte{dst}, nil) != nil {
		return false
	}
	if !s.intact(desc, dst, checksum(dst)) {
		p.lied(member)
		return false
	}
	p.asked.former.Add(1)
	fill.Publish()
	return true
}

// Pull brings chunks of one generation that a leaving member holds, those that are this gateway's from now on, in the order in which they
// are given, as far as memory is free. It ends when all are there, when ctx ends, or when the member has not sent some: those come from
// the store, for somebody may wait for them by then, and the others are left to whoever needs them.
func (p *Path) Pull(ctx context.Context, member string, held peer.Held) {
	s := p.sharedAs(held.Dataset, held.Generation)
	if s == nil {
		return
	}
	w := &warming{source: s}
	defer w.running.Wait()
	for _, n := range held.Chunks {
		chunk := int(n)
		if chunk >= s.index.Chunks() || s.Resident(chunk) || s.isOnDisk(chunk) {
			continue
		}
		if p.gate.enterWarm(ctx) != nil {
			return
		}
		comes := (&fetch{source: s}).former(chunk) == member
		if !comes || p.free() < s.Cost(chunk) || !w.bring(ctx, chunk, true) {
			p.gate.leaveWarm(true)
			if comes || p.formers.silent.Paused(member, time.Now()) {
				return
			}
		}
	}
}
